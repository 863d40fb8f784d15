//! Killed anywhere, the same command finishes the job. Every write is tried by
//! `cargo run -p slipway-release --example kills`; here a spread of them.

use slipway_sandbox::Sandbox;

use crate::kill_points::{Undisturbed, Work};

fn spread(work: Work) {
    let sandbox = Sandbox::builder().seed(1).build().expect("the sandbox starts");
    let undisturbed = Undisturbed::run(&sandbox, work).unwrap_or_else(|why| panic!("{work:?}: {why}"));
    let writes = undisturbed.writes;
    assert!(writes > 40, "{writes}");
    // The first and last ones are the records; in between one object is as good as another.
    let points = [1, 2, 3, 4, 6, 20, 33].into_iter().chain(writes - 4..=writes);
    for at in points {
        undisturbed
            .kill(&sandbox, at, true)
            .unwrap_or_else(|why| panic!("{work:?}, write {at} of {writes}: {why}"));
    }
}

#[test]
fn an_install_killed_anywhere_is_finished_by_the_next() {
    spread(Work::Install);
}

#[test]
fn an_upgrade_killed_anywhere_is_finished_by_the_next() {
    spread(Work::Upgrade);
}
