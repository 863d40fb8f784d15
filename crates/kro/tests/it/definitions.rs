//! The stored definitions are those the types give.

use slipway_kro::{ApiGroup, definitions};

#[test]
fn the_stored_definitions_are_fresh() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/crds");
    for (file, group) in [
        ("experimental.kro.run.yaml", ApiGroup::Experimental),
        ("graph.kardinal.io.yaml", ApiGroup::Embedded),
    ] {
        let made: String = definitions(group)
            .iter()
            .map(|definition| {
                format!("---\n{}", slipway_yaml::to_string(definition).expect("has a YAML form"))
            })
            .collect();
        let stored = std::fs::read_to_string(format!("{directory}/{file}")).unwrap_or_default();
        assert!(stored == made, "{file} is stale\n  hint: run `cargo xtask docs` and commit the result");
    }
}
