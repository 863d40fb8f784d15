//! Whole stacks on the embedded cluster.

use serde_json::Value;

use crate::sandbox::Down;
use crate::support::Place;

const CHART: &str = "apiVersion: v2\nname: small\nversion: 0.1.0\n";
const TEMPLATE: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: '{{ .Release.Name }}'}
data: {size: '{{ .Values.size }}'}
";

fn place() -> Place {
    let place = Place::new();
    place.write("charts/small/Chart.yaml", CHART).write("charts/small/values.yaml", "size: 1\n");
    place.write("charts/small/templates/map.yaml", TEMPLATE);
    place.write("charts/broken/Chart.yaml", CHART.replace("small", "broken"));
    place.write("charts/broken/templates/map.yaml", "{{ required \"size is needed\" .Values.size }}\n");
    place.write(
        "stack.yaml",
        "apiVersion: ktl.dev/v1\nkind: Stack\nname: demo\n\
         defaults: {cluster: {name: local}, namespace: demo, apply: {createNamespace: true}}\n\
         releases:\n- {name: base, chart: ./charts/small}\n- {name: shop, chart: ./charts/broken, needs: [base]}\n\
         - {name: tail, chart: ./charts/small, needs: [shop]}\n",
    );
    place
}

fn summary(place: &Place) -> Value {
    serde_json::from_str(&place.run(&["stack", "status", "-o", "json"]).ok()).expect("is JSON")
}

#[test]
fn a_failed_run_is_resumed_and_a_done_one_writes_nothing() {
    let place = place();
    let _down = Down(&place);
    let up = place.run(&["sandbox", "up", "--detach", "--speed", "max"]);
    assert_eq!(up.code, Some(0), "{}", up.err);

    let ran = place.run(&["stack", "apply", "--sandbox", "-q"]);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    let status = summary(&place);
    let state = |status: &Value, name: &str| status["nodes"][format!("local/demo/{name}")]["status"].clone();
    assert_eq!(
        (state(&status, "base"), state(&status, "shop")),
        ("succeeded".into(), "failed".into()),
        "{status:#}"
    );
    let error = status["nodes"]["local/demo/shop"]["lastError"].as_str().unwrap_or_default().to_owned();
    assert!(error.contains("size is needed"), "{error}");

    // The chart is mended: its inputs are not those of the run, which is said before anything happens.
    place.write("charts/broken/templates/map.yaml", TEMPLATE);
    let ran = place.run(&["stack", "apply", "--sandbox", "-q", "--resume"]);
    assert_eq!(ran.code, Some(12), "{}", ran.err);
    let ran = place.run(&["stack", "apply", "--sandbox", "-q", "--resume", "--allow-drift"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(state(&summary(&place), "tail"), "succeeded");

    let ran = place.run(&["stack", "apply", "--sandbox", "-q"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let status = summary(&place);
    for name in ["base", "shop", "tail"] {
        let node = &status["nodes"][format!("local/demo/{name}")];
        assert_eq!((&node["changed"], &node["revision"]), (&false.into(), &1.into()), "{node}");
    }

    assert_eq!(place.run(&["stack", "delete", "--sandbox", "-q"]).code, Some(14), "nobody is there to agree");
    let ran = place.run(&["stack", "delete", "--sandbox", "-q", "--yes"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let left = place.run(&["list", "-A", "--sandbox", "-o", "json"]).ok();
    assert_eq!(serde_json::from_str::<Value>(&left).expect("is JSON"), Value::Array(Vec::new()));
}
