//! The embedded facts are all there and say what a server says.

use serde_json::json;
use slipway_manifest::schema::data::{SchemaSources, pack_schema};
use slipway_manifest::schema::{ListKind, OmitRule, ScalarType, Schema};
use slipway_manifest::{Gvk, Gvr};

#[test]
fn every_resource_has_a_type() {
    let schema = Schema::built_in();
    assert_eq!(schema.types().roots().count(), 153);
    assert!(schema.resources().len() > 60);
    for resource in schema.resources() {
        assert!(schema.type_of_kind(&resource.gvk()).is_some(), "{}", resource.gvk());
    }
    let deployments = schema.resource_of(&Gvk::new("apps", "v1", "Deployment")).expect("built in");
    assert_eq!(deployments.gvr(), Gvr::new("apps", "v1", "deployments"));
    assert_eq!(deployments.short_names, ["deploy"]);
    assert_eq!(deployments.categories, ["all"]);
    assert_eq!(deployments.subresource("scale").map(|scale| scale.group.as_str()), Some("autoscaling"));
    assert_eq!(deployments.storage_version_hash, "8aSe+NMegvE=");
    assert_eq!(schema.is_namespaced("", "Namespace"), Some(false));
    assert_eq!(schema.is_namespaced("apps", "Deployment"), Some(true));
    assert_eq!(schema.is_namespaced("example.org", "Widget"), None);
}

#[test]
fn columns_are_those_of_kubectl() {
    let columns = Schema::built_in().columns("v1", "pods").expect("built in");
    let shown: Vec<_> = columns.iter().map(|column| (column.name.as_str(), column.priority)).collect();
    assert_eq!(
        shown,
        [
            ("Name", 0),
            ("Ready", 0),
            ("Status", 0),
            ("Restarts", 0),
            ("Age", 0),
            ("IP", 1),
            ("Node", 1),
            ("Nominated Node", 1),
            ("Readiness Gates", 1)
        ]
    );
    assert_eq!(columns[0].format, "name");
}

#[test]
fn fields_carry_what_patches_and_apply_need() {
    let schema = Schema::built_in();
    let deployment =
        schema.type_of(&json!({"apiVersion": "apps/v1", "kind": "Deployment"})).expect("built in");
    let names: Vec<_> =
        deployment.as_map().expect("a struct").fields.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["kind", "apiVersion", "metadata", "spec", "status"]);
    let pod = deployment.descend(["spec", "template", "spec"]).expect("a pod spec");
    let containers = pod.field("containers").expect("a field");
    assert!(containers.patch.merge && !containers.patch.retain_keys && containers.required);
    assert_eq!(containers.patch.merge_key.as_deref(), Some("name"));
    let list = pod.child("containers").and_then(slipway_manifest::TypeRef::as_list).expect("a list");
    assert_eq!(list.kind, ListKind::Map(vec!["name".into()]));
    assert!(pod.field("volumes").is_some_and(|volumes| volumes.patch.merge && volumes.patch.retain_keys));
    let ports = pod.descend(["containers", "ports"]).expect("a list");
    assert_eq!(
        ports.as_list().map(|l| l.kind.clone()),
        Some(ListKind::Map(vec!["containerPort".into(), "protocol".into()]))
    );
    let protocol = ports.item().and_then(|port| port.field("protocol")).expect("a field");
    assert_eq!(protocol.default, Some(json!("TCP")));
    assert_eq!(protocol.values, ["SCTP", "TCP", "UDP"]);
    assert!(
        pod.child("nodeSelector").and_then(slipway_manifest::TypeRef::as_map).is_some_and(|map| map.atomic)
    );
    assert!(
        deployment
            .descend(["spec", "selector"])
            .and_then(slipway_manifest::TypeRef::as_map)
            .is_some_and(|map| map.atomic)
    );
    // An embedded struct is laid flat.
    assert!(pod.descend(["volumes", "configMap", "name"]).is_some());
    let limits = pod.descend(["containers", "resources", "limits", "cpu"]).expect("a quantity");
    assert_eq!(limits.as_scalar(), Some(ScalarType::Quantity));
    let created =
        deployment.descend(["metadata"]).and_then(|meta| meta.field("creationTimestamp")).expect("a field");
    assert_eq!((created.omit, created.number), (OmitRule::Zero, 8));
    assert!(pod.descend(["nope"]).is_none());
}

#[test]
fn tables_that_do_not_add_up_are_refused() {
    let columns = json!({});
    for (table, message) in [
        (r##"{"types":[{"n":"v1.A","f":[["x","#7","","1","",""]]}],"roots":{}}"##, "type expression `#7`"),
        (
            r#"{"types":[{"n":"v1.A","f":[["x","complex","","1","",""]]}],"roots":{}}"#,
            "type expression `complex`",
        ),
        (r##"{"types":[{"n":"v1.A","f":[["","#0","","","","",{"i":1}]]}],"roots":{}}"##, "embeds itself"),
        (r#"{"types":[],"roots":{"v1/A":3}}"#, "`v1/A`"),
        ("[]", "read schema table"),
    ] {
        let error =
            pack_schema(&SchemaSources { table, columns: &columns, discovery: &[], resource_lists: &[] })
                .expect_err(message);
        assert!(error.to_string().contains(message), "{error}");
    }
    let table =
        r#"{"types":[{"n":"v1.A","f":[["x","[]string","e","1","merge","",{"lt":"s"}]]}],"roots":{"v1/A":0}}"#;
    assert!(
        pack_schema(&SchemaSources { table, columns: &columns, discovery: &[], resource_lists: &[] }).is_ok()
    );
}
