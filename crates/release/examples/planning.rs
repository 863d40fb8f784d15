//! How long planning takes besides what the server takes: `cargo run --release -p slipway-release --example
//! planning [OBJECTS...]`. Prints one line of JSON for each size: a fresh install, then no change.
#![allow(clippy::print_stdout)]

#[path = "../tests/it/echo.rs"]
mod echo;

use echo::{Echo, measure};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut sizes: Vec<usize> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    if sizes.is_empty() {
        sizes = vec![1000, 5000];
    }
    for count in sizes {
        let echo = Echo::default();
        let install = measure(&echo, count).await;
        echo.carry_out(&install.plan);
        let again = measure(&echo, count).await;
        for (what, figures) in [("install", install), ("no change", again)] {
            let line = serde_json::json!({
                "what": what, "objects": count, "operations": figures.plan.graph.len(), "requests": figures.requests,
                "ownMs": figures.own().as_millis() as u64, "serverMs": figures.server.as_millis() as u64,
            });
            println!("{line}");
        }
    }
}
