//! Trouble between client and server.

use http::Request;
use http_body_util::Full;
use slipway_sandbox::{Fault, FaultLayer, FaultRule, Sandbox};
use tower::{Layer, ServiceExt};

#[tokio::test]
async fn faults_hit_what_they_are_told_to() {
    let sandbox = Sandbox::builder().without_workloads().build().unwrap();
    let plan = FaultLayer::new(1);
    plan.add(
        FaultRule::new(Fault::TooManyRequests { retry_after: 3 })
            .method("GET")
            .path_contains("/nodes")
            .times(1),
    );
    plan.add(FaultRule::new(Fault::Reset).path_contains("/secrets").skip(1));
    let service = plan.layer(sandbox.service());
    let get = |path: &str| {
        let request = Request::get(path).body(Full::new(bytes::Bytes::new())).unwrap();
        service.clone().oneshot(request)
    };
    let refused = get("/api/v1/nodes").await.unwrap();
    assert_eq!((refused.status().as_u16(), refused.headers()["retry-after"].to_str().unwrap()), (429, "3"));
    assert_eq!(get("/api/v1/nodes").await.unwrap().status().as_u16(), 200);
    assert_eq!(get("/api/v1/secrets").await.unwrap().status().as_u16(), 200);
    assert!(get("/api/v1/secrets").await.is_err());
    assert_eq!(plan.hits(), 2);
}
