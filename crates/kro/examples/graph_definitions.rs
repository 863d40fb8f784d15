//! Prints the definitions of Graph and GraphRevision as YAML, for the group that is named.
#![allow(clippy::print_stdout)]

use slipway_kro::{ApiGroup, definitions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let groups = [ApiGroup::Experimental, ApiGroup::Embedded];
    let group = groups.into_iter().find(|group| group.name() == wanted).ok_or("name a group")?;
    for definition in definitions(group) {
        print!("---\n{}", slipway_yaml::to_string(&definition)?);
    }
    Ok(())
}
