//! With 5 % of all requests refused or lost and half of the watches broken, 100 of 100 installs succeed.

use std::time::Duration;

use futures::StreamExt;
use slipway_sandbox::Sandbox;

use crate::foul;

#[tokio::test]
async fn a_hundred_of_a_hundred_installs_bear_foul_weather() {
    let sandbox = Sandbox::builder().seed(1).build().expect("the sandbox starts");
    let installs = (0..100).map(|seed| foul::install(&sandbox, seed, Duration::from_millis(5)));
    let results: Vec<Result<u64, String>> =
        futures::stream::iter(installs).buffer_unordered(20).collect().await;
    let failures: Vec<&String> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    assert!(failures.is_empty(), "{} failed: {failures:#?}", failures.len());
    let hits: u64 = results.iter().flatten().sum();
    assert!(hits > 100, "there was trouble: {hits}");
}
