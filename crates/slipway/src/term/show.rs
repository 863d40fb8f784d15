//! Results on standard output in the form the user asked for.

use serde::Serialize;

use crate::cli::Output;
use crate::term::output;

/// Prints `value` as JSON or YAML, or what `table` makes of it for people. Registered secrets are masked; in
/// JSON and YAML inside of the texts, so that the form stays valid.
pub fn show<T: Serialize>(output: Output, value: &T, table: impl FnOnce(&T) -> String) -> anyhow::Result<()> {
    if output == Output::Table {
        return print(&table(value));
    }
    match output::masked_data(value)? {
        Some(masked) => reveal(output, &masked, |_| String::new()),
        None => reveal(output, value, |_| String::new()),
    }
}

/// Prints `value` as [`show`] does with the secrets in it: the user asked to see them.
pub fn reveal<T: Serialize>(
    output: Output,
    value: &T,
    table: impl FnOnce(&T) -> String,
) -> anyhow::Result<()> {
    output::print_revealed(&match output {
        Output::Table => table(value),
        Output::Json => serde_json::to_string_pretty(value)? + "\n",
        Output::Yaml => slipway_yaml::to_string(value)?,
    });
    written()
}

/// Prints text, masked.
pub fn print(text: &str) -> anyhow::Result<()> {
    output::print(text);
    written()
}

/// Prints `value` as one line of JSON, masked.
pub fn line<T: Serialize>(value: &T) -> anyhow::Result<()> {
    let text = match output::masked_data(value)? {
        Some(masked) => masked.to_string(),
        None => serde_json::to_string(value)?,
    };
    output::print_revealed(&(text + "\n"));
    written()
}

/// Prints data as it is: the user asked for all of it.
pub fn data(bytes: impl Into<Vec<u8>>) -> anyhow::Result<()> {
    output::data(bytes.into());
    written()
}

/// Fails when standard output takes nothing any more. A reader that went away (`| head`) is no failure.
fn written() -> anyhow::Result<()> {
    Ok(output::failure().map_or(Ok(()), Err)?)
}
