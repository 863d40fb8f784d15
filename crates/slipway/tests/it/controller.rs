//! The controller of promotions as commands: installed, looked at, run, and removed.

use crate::sandbox::Down;
use crate::support::Place;

#[test]
fn a_controller_is_installed_examined_and_removed() {
    let place = Place::new();
    let _down = Down(&place);
    place.run(&["controller", "install", "--sandbox", "-n", "kardinal-system", "--no-wait"]).ok();
    let found = place.run(&["doctor", "--sandbox", "-n", "kardinal-system", "-o", "json"]);
    assert!(found.out.contains("controller-not-running"), "{}", found.out);
    assert!(!found.out.contains("definition-missing"), "{}", found.out);
    assert_eq!(found.code, Some(1), "nothing is promoted while nobody leads");
    let trail = place.run(&["audit", "verify", "--sandbox", "-A", "-o", "json"]).ok();
    assert_eq!(trail.trim(), "[]");
    place.run(&["audit", "summary", "--sandbox", "--since", "30d"]).ok();
    place.run(&["audit", "timeline", "--sandbox", "--pipeline", "app"]).ok();
    place.run(&["controller", "uninstall", "--sandbox", "-n", "kardinal-system"]).ok();
    let found = place.run(&["doctor", "--sandbox", "-n", "kardinal-system", "-o", "json"]);
    assert!(!found.out.contains("definition-missing"), "definitions stay: {}", found.out);
}

#[test]
fn the_chart_is_written_for_other_tools() {
    let place = Place::new();
    place.run(&["controller", "install", "--write-chart", "chart"]).ok();
    let rendered = place.run(&["render", "kardinal", "chart", "-n", "kardinal-system"]).ok();
    for kind in [
        "kind: Deployment",
        "kind: ValidatingAdmissionPolicy",
        "kind: NetworkPolicy",
        "kind: PodDisruptionBudget",
    ] {
        assert!(rendered.contains(kind), "{kind}");
    }
}

#[test]
fn a_process_without_what_it_needs_says_so() {
    let place = Place::new();
    let refused = place.run(&["agent", "--shard", "", "--control-plane-kubeconfig", "nothing"]);
    assert_eq!(refused.code, Some(64), "{}", refused.err);
    let refused = place.run(&["controller", "run", "--api-address", "somewhere"]);
    assert!(refused.err.contains("127.0.0.1:8083"), "{}", refused.err);
}
