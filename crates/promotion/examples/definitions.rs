//! Prints the definition of a kind as YAML; the kind is named as in `pipelines.kardinal.io`.
#![allow(clippy::print_stdout)]

use slipway_promotion::kinds::definitions;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let all = definitions();
    let found = all.iter().find(|definition| definition["metadata"]["name"] == wanted.as_str());
    print!("{}", slipway_yaml::to_string(found.ok_or("name a kind, such as `pipelines.kardinal.io`")?)?);
    Ok(())
}
