//! Planning thousands of objects takes time that grows as they do, and few requests. The figures come from
//! `cargo run --release -p slipway-release --example planning`.

use crate::echo::{Echo, measure};

#[tokio::test]
async fn planning_grows_as_the_release_does() {
    let mut own = Vec::new();
    for count in [400, 3200] {
        let echo = Echo::default();
        let install = measure(&echo, count).await;
        assert_eq!(install.plan.objects.len(), count);
        echo.carry_out(&install.plan);
        let again = measure(&echo, count).await;
        assert!(again.plan.is_empty(), "{:?}", again.plan.reason);
        // One dry run each, pages of lists, and a handful.
        assert!(
            again.requests <= (count + count / 100 + 20) as u64,
            "{} requests for {count}",
            again.requests
        );
        own.push((install.own() + again.own()).as_secs_f64());
    }
    // Eight times the objects: eight times the time, not sixty-four; a busy machine may take a little more.
    assert!(own[1] < own[0] * 24.0, "{own:?}");
}
