//! The 56 acceptance scenarios of the specification, one test each, in process on the sandbox.

mod failures;
mod fields;
mod history;
mod ordering;
mod readiness;
mod removals;
mod revisions;

/// Every scenario has its test; a stranger checks them off here.
#[test]
fn all_56_scenarios_are_here() {
    let files = [
        include_str!("failures.rs"),
        include_str!("fields.rs"),
        include_str!("history.rs"),
        include_str!("ordering.rs"),
        include_str!("readiness.rs"),
        include_str!("removals.rs"),
        include_str!("revisions.rs"),
    ];
    let missing: Vec<usize> = (1..=56)
        .filter(|number| !files.iter().any(|file| file.contains(&format!("/// Scenario {number}:"))))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
