//! Decoding against what a 1.37 server answers.

use proptest::prelude::*;
use serde_json::{Value, json};
use slipway_manifest::decode::{decode_json, decode_protobuf, decode_value, unknown_fields};
use slipway_manifest::encode::encode_protobuf;
use slipway_manifest::schema::{Schema, TypeRef};

fn kind(api_version: &str, kind: &str) -> TypeRef<'static> {
    Schema::built_in().types().type_of_kind(api_version, kind).expect("built in")
}

#[test]
fn unknown_and_duplicate_fields_are_named_in_document_order() {
    let json = br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","foo":1},"data":{"a":"1","a":"2"},"bar":{"x":1}}"#;
    let decoded = decode_json(json, kind("v1", "ConfigMap")).expect("decodes");
    assert_eq!(
        decoded.strict_answer("ConfigMap", "v1").as_deref(),
        Some(
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"metadata.foo\", duplicate field \"data.a\", unknown field \"bar\""
        )
    );
    assert_eq!(
        decoded.object,
        json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"a": "2"}})
    );
    let pod = json!({"spec": {"containers": [{"name": "c", "l": 1}], "foo": 1}});
    assert_eq!(
        unknown_fields(&pod, kind("v1", "Pod")),
        ["unknown field \"spec.containers[0].l\"", "unknown field \"spec.foo\""]
    );
}

#[test]
fn misfits_read_as_go_words_them() {
    for (api_version, of, object, message) in [
        (
            "v1",
            "ConfigMap",
            json!({"data": {"a": 1}}),
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (
            "apps/v1",
            "Deployment",
            json!({"spec": {"replicas": "x"}}),
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "apps/v1",
            "Deployment",
            json!({"spec": {"replicas": 1.5}}),
            "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "apps/v1",
            "Deployment",
            json!({"spec": {"template": {"spec": {"containers": [{"env": [{"name": "A", "value": 1}]}]}}}}),
            "json: cannot unmarshal number into Go struct field EnvVar.spec.template.spec.containers.env.value of type string",
        ),
        (
            "v1",
            "Pod",
            json!({"spec": {"containers": {}}}),
            "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            "v1",
            "Pod",
            json!({"metadata": {"labels": []}}),
            "json: cannot unmarshal array into Go struct field ObjectMeta.metadata.labels of type map[string]string",
        ),
        (
            "v1",
            "Pod",
            json!({"spec": {"containers": [{"resources": {"limits": {"cpu": "x"}}}]}}),
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        ("v1", "Secret", json!({"data": {"a": "!"}}), "illegal base64 data at input byte 0"),
    ] {
        let error = decode_value(object, kind(api_version, of)).expect_err(message);
        assert_eq!(error.to_string(), message);
    }
    let error = decode_json(b"{\"metadata\":", kind("v1", "ConfigMap")).expect_err("cut short");
    assert_eq!(error.to_string(), "unexpected end of JSON input");
}

#[test]
fn objects_take_kubernetes_own_form() {
    let deployment = json!({"spec": {"template": {"spec": {"containers": [
        {"image": "i", "name": "c", "env": [], "command": null, "resources": {"limits": {"memory": "1024Mi", "cpu": 0.5}}, "tty": false}]},
        "metadata": {"labels": {"b": "1", "a": null}, "creationTimestamp": null}}}, "metadata": {"name": "d", "annotations": {}}, "apiVersion": "apps/v1", "kind": "Deployment"});
    let decoded = decode_value(deployment, kind("apps/v1", "Deployment")).expect("decodes").object;
    assert_eq!(
        decoded.to_string(),
        concat!(
            r#"{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"d"},"spec":{"selector":null,"#,
            r#""template":{"metadata":{"labels":{"a":"","b":"1"}},"spec":{"containers":[{"name":"c","image":"i","#,
            r#""resources":{"limits":{"cpu":"500m","memory":"1Gi"}}}]}},"strategy":{}},"status":{}}"#
        )
    );
    let golden: Value = serde_json::from_str(include_str!("../data/deployment.json")).expect("JSON");
    let decoded = decode_value(golden.clone(), kind("apps/v1", "Deployment")).expect("decodes");
    assert_eq!(decoded.object.to_string(), golden.to_string(), "a server's own object is in form already");
    assert_eq!(decoded.strict, Vec::<String>::new());
    let lease = json!({"spec": {"renewTime": "2026-11-15T20:02:21.000000+01:00"}});
    let decoded = decode_value(lease, kind("coordination.k8s.io/v1", "Lease")).expect("decodes").object;
    assert_eq!(decoded["spec"]["renewTime"], "2026-11-15T19:02:21.000000Z");
}

#[test]
fn protobuf_bodies_of_kubectl_decode() {
    let cases = [
        (
            "6b3873000a0f0a02763112094e616d657370616365121c0a140a0464656d6f12001a0022002a0032003800420012001a020a001a002200",
            json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "demo"}, "spec": {}, "status": {}}),
        ),
        (
            "6b3873000a0c0a027631120653656372657412220a160a02733112001a0464656d6f22002a0032003800420012060a01611201621a001a002200",
            json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "s1", "namespace": "demo"}, "data": {"a": "Yg=="}}),
        ),
        (
            "6b3873000a0f0a0276311209436f6e6669674d617012200a160a02633112001a0464656d6f22002a0032003800420012060a016b1201761a002200",
            json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "c1", "namespace": "demo"}, "data": {"k": "v"}}),
        ),
        (
            "6b3873000a280a1861757468656e7469636174696f6e2e6b38732e696f2f7631120c546f6b656e52657175657374121d0a100a0012001a0022002a00320038004200120320d8041a040a0012001a002200",
            json!({"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": {}, "spec": {"audiences": null, "expirationSeconds": 600, "boundObjectRef": null}, "status": {"token": "", "expirationTimestamp": null}}),
        ),
        (
            "6b3873000a0f0a0862617463682f763112034a6f62127e0a160a026a3112001a0464656d6f22002a00320038004200125a32580a100a0012001a0022002a00320038004200124412210a026a31120762757379626f782a0042006a007200800100880100900100a201001a054e65766572320042004a0052005800600068008201008a01009a0100c201001a082000280030003a001a002200",
            json!({"kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": "j1", "namespace": "demo"}, "spec": {"template": {"metadata": {},
                "spec": {"containers": [{"name": "j1", "image": "busybox", "resources": {}}], "restartPolicy": "Never"}}}, "status": {}}),
        ),
    ];
    for (hex, expected) in cases {
        let bytes: Vec<u8> = (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex"))
            .collect();
        let decoded = decode_protobuf(&bytes, Schema::built_in().types()).expect("decodes");
        assert_eq!(encode_protobuf(&decoded.object, Schema::built_in().types()).as_deref(), Some(&bytes[..]));
        assert_eq!(decoded.object, expected);
        for end in 0..bytes.len() {
            let _ = decode_protobuf(&bytes[..end], Schema::built_in().types());
        }
    }
}

/// A protobuf field of bytes.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![(number << 3) | 2];
    let mut length = content.len();
    while length > 0x7f {
        out.push((length as u8 & 0x7f) | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(content);
    out
}

/// A body of a kind with this content.
fn protobuf_body(version: &str, kind: &str, content: &[u8]) -> Vec<u8> {
    let meta = [field(1, version.as_bytes()), field(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), field(1, &meta), field(2, content)].concat()
}

#[test]
fn protobuf_options_of_any_group_decode() {
    for version in ["v1", "apps/v1", "batch/v1", "example.com/v1alpha1"] {
        let body =
            protobuf_body(version, "DeleteOptions", &[&[0x08, 30][..], &field(4, b"Foreground")].concat());
        let decoded = decode_protobuf(&body, Schema::built_in().types()).expect(version).object;
        assert_eq!(decoded["gracePeriodSeconds"], 30, "{version}");
        assert_eq!(decoded["propagationPolicy"], "Foreground", "{version}");
    }
}

#[test]
fn protobuf_times_keep_trailing_zeros() {
    // 1700000000 seconds, 120 milliseconds in nanoseconds.
    let time = [0x08, 0x80, 0xe2, 0xcf, 0xaa, 0x06, 0x10, 0x80, 0x9c, 0x9c, 0x39];
    let spec = field(4, &time);
    let body = protobuf_body("coordination.k8s.io/v1", "Lease", &field(2, &spec));
    let decoded = decode_protobuf(&body, Schema::built_in().types()).expect("decodes").object;
    assert_eq!(decoded["spec"]["renewTime"], "2023-11-14T22:13:20.120000Z");
}

#[test]
fn schemas_decode_from_protobuf() {
    // JSONSchemaProps: type is 5, items 24, properties 29, additionalProperties 30.
    let long = |number: u64, content: &[u8]| {
        let tag = (number << 3) | 2;
        let mut out = vec![(tag as u8 & 0x7f) | 0x80, (tag >> 7) as u8];
        out.extend_from_slice(&field(0, content)[1..]);
        out
    };
    let schema = |kind: &str| field(5, kind.as_bytes());
    let list = [schema("array"), long(24, &field(1, &schema("string")))].concat();
    let map =
        [schema("object"), long(30, &[&[0x08, 1][..], &field(2, &schema("integer"))].concat())].concat();
    let open = [schema("object"), long(30, &[0x08, 1])].concat();
    let property =
        |name: &str, schema: &[u8]| long(29, &[field(1, name.as_bytes()), field(2, schema)].concat());
    let whole =
        [schema("object"), property("list", &list), property("map", &map), property("open", &open)].concat();
    let version = [field(1, b"v1"), vec![0x10, 1, 0x18, 1], field(4, &field(1, &whole))].concat();
    let spec = [field(1, b"example.com"), field(4, b"Namespaced"), field(7, &version)].concat();
    let body = protobuf_body("apiextensions.k8s.io/v1", "CustomResourceDefinition", &field(2, &spec));
    let decoded = decode_protobuf(&body, Schema::built_in().types()).expect("decodes").object;
    assert_eq!(
        decoded["spec"]["versions"][0]["schema"]["openAPIV3Schema"],
        json!({"type": "object", "properties": {
            "list": {"type": "array", "items": {"type": "string"}},
            "map": {"type": "object", "additionalProperties": {"type": "integer"}},
            "open": {"type": "object", "additionalProperties": true},
        }})
    );
}

proptest! {
    #[test]
    fn decoding_twice_is_decoding_once(pod in crate::patch::any_pod()) {
        let once = decode_value(pod, kind("v1", "Pod")).unwrap().object;
        let twice = decode_value(once.clone(), kind("v1", "Pod")).unwrap().object;
        prop_assert_eq!(twice.to_string(), once.to_string());
    }

    #[test]
    fn no_input_panics(value in crate::patch::any_json(), bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = decode_value(value, kind("v1", "Pod"));
        let _ = decode_json(&bytes, kind("v1", "Pod"));
        let mut body = b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x40".to_vec();
        body.extend(bytes);
        body.resize(body.len().max(100), 0);
        let _ = decode_protobuf(&body, Schema::built_in().types());
    }
}
