//! Kills an install and an upgrade of sixty objects with every write they make, served and unserved, and runs
//! them again: `cargo run -p slipway-release --example kills [STEP]`. Prints how many points converged.
#![allow(clippy::print_stdout)]

#[path = "../tests/it/kill_points.rs"]
mod kill_points;
#[allow(dead_code)]
#[path = "../tests/it/tap.rs"]
mod tap;

use kill_points::{Undisturbed, Work};
use slipway_sandbox::Sandbox;

fn main() {
    let step = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1);
    let (mut points, mut failures) = (0, 0);
    for work in [Work::Install, Work::Upgrade] {
        let sandbox = Sandbox::builder().seed(1).build().expect("the sandbox starts");
        let undisturbed = Undisturbed::run(&sandbox, work).unwrap_or_else(|why| panic!("{work:?}: {why}"));
        for at in (1..=undisturbed.writes).step_by(step) {
            for served in [true, false] {
                points += 1;
                if let Err(why) = undisturbed.kill(&sandbox, at, served) {
                    failures += 1;
                    println!("{work:?}, write {at} of {}, served {served}: {why}", undisturbed.writes);
                }
            }
        }
    }
    println!("{} of {points} kill points converged", points - failures);
    std::process::exit(i32::from(failures > 0));
}
