//! The embedded cluster as a process.

use crate::support::Place;

#[test]
fn it_starts_says_where_and_stops() {
    let place = Place::new();
    assert_eq!(place.run(&["sandbox", "status"]).ok(), "not running\n");
    let ran = place.run(&["sandbox", "kubeconfig"]);
    assert!(ran.code == Some(1) && ran.err.contains("slipway sandbox up"), "{}", ran.err);

    let up = place.run(&["sandbox", "up", "--detach", "--speed", "max", "--write-kubeconfig", "kubeconfig"]);
    assert_eq!(up.code, Some(0), "{}", up.err);
    let kubeconfig = std::fs::read_to_string(place.path().join("kubeconfig")).unwrap();
    assert_eq!(place.run(&["sandbox", "kubeconfig"]).ok(), kubeconfig);
    let status: serde_json::Value =
        serde_json::from_str(&place.run(&["sandbox", "status", "-o", "json"]).ok()).unwrap();
    assert!(kubeconfig.contains(status["server"].as_str().unwrap()), "{status}");
    assert_eq!(place.run(&["sandbox", "up"]).code, Some(1), "one at a time");

    assert_eq!(place.run(&["sandbox", "down"]).code, Some(0));
    assert_eq!(place.run(&["sandbox", "status"]).ok(), "not running\n");
    assert_eq!(place.run(&["sandbox", "down"]).code, Some(1));
}
