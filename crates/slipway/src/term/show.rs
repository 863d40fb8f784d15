//! Results on standard output in the form the user asked for.

use std::io::Write;

use serde::Serialize;

use crate::cli::Output;

/// Prints `value` as JSON or YAML, or what `table` makes of it for people.
pub fn show<T: Serialize>(output: Output, value: &T, table: impl FnOnce(&T) -> String) -> anyhow::Result<()> {
    let text = match output {
        Output::Table => table(value),
        Output::Json => serde_json::to_string_pretty(value)? + "\n",
        Output::Yaml => slipway_yaml::to_string(value)?,
    };
    print(&text)
}

/// Prints text; a reader that went away (`| head`) is no failure.
pub fn print(text: &str) -> anyhow::Result<()> {
    match anstream::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}
