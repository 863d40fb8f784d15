//! Installs releases through foul weather: `cargo run -p slipway-release --example weather [INSTALLS]`.
//! Prints how many succeeded.
#![allow(clippy::print_stdout)]

#[path = "../tests/it/foul.rs"]
mod foul;

use std::time::Duration;

use slipway_sandbox::Sandbox;

#[tokio::main]
async fn main() {
    let count = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(100);
    let sandbox = Sandbox::builder().seed(1).build().expect("the sandbox starts");
    let installs = (0..count).map(|seed| foul::install(&sandbox, seed, Duration::from_millis(100)));
    let (mut good, mut hits) = (0, 0);
    for result in futures::future::join_all(installs).await {
        match result {
            Ok(hit) => (good, hits) = (good + 1, hits + hit),
            Err(why) => println!("{why}"),
        }
    }
    println!("{good} of {count} installs succeeded; {hits} requests were hit");
    std::process::exit(i32::from(good != count));
}
