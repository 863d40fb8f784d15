//! What a wait is for, on one sample object.

use serde_json::json;
use slipway_cluster::wait::WaitCondition;

#[test]
fn truth_table() {
    let object = json!({
        "metadata": { "generation": 3, "annotations": { "a.b/c": "v" } },
        "status": {
            "observedGeneration": 2, "phase": "Running", "ready": 0, "ok": false, "ips": [], "ports": [80, 443],
            "note": "",
            "conditions": [
                { "type": "Ready", "status": "True" },
                { "type": "Synced", "status": "False", "observedGeneration": 3 },
            ],
        },
    });
    for (text, met) in [
        ("condition=Ready", false),
        ("condition=synced=false", true),
        ("condition=Missing", false),
        ("jsonpath=status.phase=Running", true),
        ("jsonpath={status.phase}", true),
        (r#"jsonpath={.status.phase}="Running""#, true),
        ("jsonpath={.status.ready}", true),
        ("jsonpath={.status.ready}=0", true),
        ("jsonpath={.status.ok}", true),
        ("jsonpath={.status.note}", false),
        ("jsonpath={.status.ips}", false),
        ("jsonpath={.status.ips[0]}", false),
        ("jsonpath={.status.ports[-1]}=443", true),
        ("jsonpath={.status.ports[*]}=80", true),
        ("jsonpath={.status.ports[0:1]}=443", false),
        ("jsonpath={.status.ports}=80", false),
        (r"jsonpath={.metadata.annotations.a\.b/c}=v", true),
        (r#"jsonpath={.status.conditions[?(@.type=="Ready")].status}=True"#, true),
        ("jsonpath={.status.conditions[?(@.type=='Nope')].status}=True", false),
        ("jsonpath={..type}=Synced", true),
        ("delete", false),
    ] {
        let until = WaitCondition::parse(text).unwrap_or_else(|error| panic!("{text}: {}", error.message));
        assert_eq!(until.is_met(Some(&object)), met, "{text}");
    }
}

#[test]
fn what_is_no_target() {
    for text in [
        "",
        "ready",
        "create",
        "Delete",
        "condition=",
        "condition==True",
        "condition=Ready=",
        "jsonpath=",
        "jsonpath={",
        "jsonpath={}",
        "jsonpath={.a}x",
        "jsonpath={.status.phase}{.status.note}",
        "jsonpath={.status.phase}=",
        r#"jsonpath=.status.conditions[?(@.type=="Ready")].status=True"#,
    ] {
        assert!(WaitCondition::parse(text).is_err(), "{text}");
    }
}

#[tokio::test]
async fn what_timed_out_tells_the_last_value_seen() {
    let world = crate::world::World::new();
    world.put(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "gate"}, "data": {"phase": "Cooking"}})).await;
    world.put(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"a": "hunter2"}})).await;
    let cases = [
        ("jsonpath={.data.phase}=Done", "configmap/gate", "{.data.phase} is `Cooking`"),
        ("jsonpath={.data.other}", "configmap/gate", "{.data.other} finds nothing"),
        ("condition=Ready", "configmap/gate", "it has no condition Ready"),
        ("jsonpath={.data.a}=x", "secret/key", "a value that is not shown"),
    ];
    // Long enough to be looked at on a busy machine, and all at once.
    let step = |(number, (condition, on, _)): (usize, &(&str, &str, &str))| {
        format!(
            "  - {{name: w{number}, timeout: 5s, onError: continue, wait: {{for: '{condition}', on: {on}}}}}\n"
        )
    };
    let report = world.apply(&cases.iter().enumerate().map(step).collect::<String>()).await;
    for (number, (condition, _, expected)) in cases.iter().enumerate() {
        let error = crate::world::error(&report, &format!("w{number}"));
        assert!(error.contains(expected), "{condition}: {error}");
    }
}
