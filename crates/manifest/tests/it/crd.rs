//! Custom resources against what a 1.37 server answers.

use proptest::prelude::*;
use serde_json::{Value, json};
use slipway_manifest::apply::{WriteRequest, apply};
use slipway_manifest::crd::{
    CustomResource, RuleChecker, RuleFailure, ValidationRule, check_definition, check_schema,
};
use slipway_manifest::field_error::invalid_message;

fn schema() -> Value {
    json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["a"], "x-kubernetes-validations": [{"rule": "self.num < 5", "message": "num too big"}], "properties": {
            "a": {"type": "integer", "minimum": 1},
            "s": {"type": "string", "enum": ["x", "y"], "default": "x"},
            "p": {"type": "string", "maxLength": 3, "pattern": "^a+$"},
            "st": {"type": "array", "maxItems": 2, "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "l": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "integer", "default": 7}}}},
            "dt": {"type": "string", "format": "date-time"},
            "ios": {"x-kubernetes-int-or-string": true},
            "n": {"type": "string", "nullable": true},
            "nest": {"type": "object", "default": {}, "properties": {"x": {"type": "integer", "default": 3}}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"known": {"type": "object", "properties": {}}}},
            "m": {"type": "object", "additionalProperties": {"type": "object", "properties": {"q": {"type": "integer"}}}},
            "emb": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
            "one": {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"a": {"type": "string"}, "b": {"type": "string"}}},
            "imm": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "imm is immutable"}]}
        }},
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}}
    }})
}

fn resource() -> CustomResource {
    CustomResource::new("sp.test/v1", "Spg", Some(&schema())).expect("compiles")
}

fn object(spec: Value) -> Value {
    json!({"apiVersion": "sp.test/v1", "kind": "Spg", "metadata": {"name": "q"}, "spec": spec})
}

#[test]
fn values_are_refused_in_a_servers_words() {
    for (spec, expected) in [
        (json!({"a": 1}), &[][..]),
        (
            json!({"a": "x"}),
            &[r#"spec.a: Invalid value: "string": spec.a in body must be of type integer: "string""#],
        ),
        (json!({}), &["spec.a: Required value"]),
        (json!({"a": 0}), &["spec.a: Invalid value: 0: spec.a in body should be greater than or equal to 1"]),
        (json!({"a": 1, "s": "q"}), &[r#"spec.s: Unsupported value: "q": supported values: "x", "y""#]),
        (json!({"a": 1, "p": "bbbb"}), &["spec.p: Too long: may not be more than 3 bytes"]),
        (json!({"a": 1, "p": "b"}), &[r#"spec.p: Invalid value: "b": spec.p in body should match '^a+$'"#]),
        (json!({"a": 1, "st": ["a", "a"]}), &[r#"spec.st[1]: Duplicate value: "a""#]),
        (json!({"a": 1, "st": ["a", "b", "c"]}), &["spec.st: Too many: 3: must have at most 2 items"]),
        (json!({"a": 1, "l": [{"k": "1"}, {"k": "1"}]}), &[r#"spec.l[1]: Duplicate value: {"k":"1"}"#]),
        (
            json!({"a": 1, "dt": "x"}),
            &[r#"spec.dt: Invalid value: "x": spec.dt in body must be of type date-time: "x""#],
        ),
        (json!({"a": 1, "dt": "2026-01-01T00:00:00Z"}), &[]),
        (
            json!({"a": 1, "ios": true}),
            &[
                r#"spec.ios: Invalid value: "boolean": spec.ios in body must be of type integer,string: "boolean""#,
            ],
        ),
        (json!({"a": 1, "ios": "5%"}), &[]),
        (json!({"a": 1, "n": null}), &[]),
        (
            json!({"a": null}),
            &[r#"spec.a: Invalid value: "null": spec.a in body must be of type integer: "null""#],
        ),
        (
            json!({"a": 1, "m": {"z": {"q": "x"}}}),
            &[r#"spec.m.z.q: Invalid value: "string": spec.m.z.q in body must be of type integer: "string""#],
        ),
        (
            json!({"a": 1, "one": {}}),
            &[
                r#"spec.one: Invalid value: "": "spec.one" must validate one and only one schema (oneOf). Found none valid"#,
                "spec.one.a: Required value",
            ],
        ),
        (
            json!({"a": 1, "emb": {"metadata": {}}}),
            &["spec.emb.apiVersion: Required value", "spec.emb.kind: Required value"],
        ),
    ] {
        let errors = resource().validate(&object(spec.clone())).expect("shallow");
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(texts, expected, "{spec}");
    }
    let errors = resource().validate(&object(json!({"a": "x"}))).expect("shallow");
    assert_eq!(errors[0].reason(), "FieldValueTypeInvalid");
    assert_eq!(
        invalid_message("Spg", "sp.test", "q", &errors),
        r#"Spg.sp.test "q" is invalid: spec.a: Invalid value: "string": spec.a in body must be of type integer: "string""#
    );
}

#[test]
fn unknown_fields_are_pruned_and_named() {
    let mut value = object(
        json!({"a": 1, "zz": 1, "l": [{"k": "1", "u": 2}], "free": {"x": {"y": 1}, "known": {"gone": 1}},
        "m": {"k": {"q": 1, "r": 2}}, "emb": {"apiVersion": "v1", "kind": "P", "metadata": {"name": "x", "bad": 1}, "data": 1}}),
    );
    value["top"] = json!(1);
    value["metadata"]["foo"] = json!(1);
    let dropped = resource().prune_unknown_fields(&mut value).expect("shallow");
    assert_eq!(
        dropped,
        [
            r#"unknown field "metadata.foo""#,
            r#"unknown field "spec.zz""#,
            r#"unknown field "spec.l[0].u""#,
            r#"unknown field "spec.free.known.gone""#,
            r#"unknown field "spec.m.k.r""#,
            r#"unknown field "spec.emb.metadata.bad""#,
            r#"unknown field "top""#,
        ]
    );
    assert_eq!(
        value,
        object(json!({"a": 1, "l": [{"k": "1"}], "free": {"x": {"y": 1}, "known": {}}, "m": {"k": {"q": 1}},
            "emb": {"apiVersion": "v1", "kind": "P", "metadata": {"name": "x"}, "data": 1}}))
    );
}

#[test]
fn defaults_are_set_at_every_depth() {
    let mut value = object(json!({"a": 1, "s": null, "n": null, "l": [{"k": "1"}]}));
    resource().set_defaults(&mut value).expect("shallow");
    assert_eq!(
        value["spec"],
        json!({"a": 1, "s": "x", "n": null, "l": [{"k": "1", "v": 7}], "nest": {"x": 3}})
    );
}

#[test]
fn schemas_that_are_not_structural_are_refused() {
    let at = "spec.validation.openAPIV3Schema";
    let with = |properties: Value| json!({"type": "object", "properties": properties});
    for (schema, expected) in [
        (json!({"type": "string"}), r#".type: Invalid value: "string": must be object at the root"#),
        (json!({"properties": {}}), ".type: Required value: must not be empty at the root"),
        (
            with(json!({"a": {}})),
            ".properties[a].type: Required value: must not be empty for specified object fields",
        ),
        (with(json!({"a": {"type": "array"}})), ".properties[a].items: Required value: must be specified"),
        (
            with(json!({"a": {"type": "array", "items": {}}})),
            ".properties[a].items.type: Required value: must not be empty for specified array items",
        ),
        (
            with(json!({"a": {"type": "string", "anyOf": [{"type": "string"}]}})),
            ".properties[a].anyOf[0].type: Forbidden: must be empty to be structural",
        ),
        (
            with(json!({"a": {"type": "integer", "default": "string"}})),
            r#".properties[a].default: Invalid value: "string":  in body must be of type integer: "string""#,
        ),
        (
            with(json!({"a": {"type": "string", "$ref": "#/x"}})),
            ".properties[a].$ref: Forbidden: $ref is not supported",
        ),
        (
            with(json!({"a": {"type": "array", "uniqueItems": true, "items": {"type": "string"}}})),
            ".properties[a].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ),
        (
            with(
                json!({"a": {"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": {"type": "string"}}}),
            ),
            ".properties[a].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
        ),
        (
            with(json!({"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}})),
            ".properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
        ),
        (
            with(
                json!({"a": {"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object"}}}),
            ),
            ".properties[a].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
        ),
    ] {
        let errors = check_schema(&schema, at);
        assert_eq!(errors.first().map(ToString::to_string), Some(format!("{at}{expected}")), "{schema}");
    }
    let errors = check_schema(&with(json!({"a": {"type": "string", "pattern": "("}})), at);
    assert!(errors[0].to_string().contains("must be a valid regular expression, but isn't"), "{}", errors[0]);
    assert_eq!(check_schema(&schema(), at), vec![]);
}

#[test]
fn definitions_are_checked() {
    let good = json!({"metadata": {"name": "spgs.sp.test"}, "spec": {"group": "sp.test", "scope": "Namespaced",
        "names": {"plural": "spgs", "kind": "Spg"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema()}}]}});
    assert_eq!(check_definition(&good), vec![]);
    let mut bad = good.clone();
    bad["metadata"]["name"] = json!("x");
    bad["spec"]["versions"][0]["storage"] = json!(false);
    bad["spec"]["versions"][0]["schema"] = json!({});
    let texts: Vec<String> = check_definition(&bad).iter().map(ToString::to_string).collect();
    assert_eq!(texts[0], r#"metadata.name: Invalid value: "x": must be spec.names.plural+"."+spec.group"#);
    assert!(texts[1].starts_with("spec.versions[0].schema.openAPIV3Schema: Required value"));
    assert!(texts[2].ends_with("must have exactly one version marked as storage version"));
    let mut protected = good;
    protected["spec"]["group"] = json!("x.k8s.io");
    protected["metadata"]["name"] = json!("spgs.x.k8s.io");
    assert!(
        check_definition(&protected)[0]
            .to_string()
            .starts_with("metadata.annotations[api-approved.kubernetes.io]: Required value")
    );
}

#[test]
fn schemas_are_refused_in_the_order_of_a_server() {
    // What keeps it from being structural comes first, sorted; then defaults, then everything else.
    let cases = [
        (
            json!({"type": "x"}),
            vec!["type: Invalid value: \"x\": must be object at the root", "type: Unsupported value"],
        ),
        (
            json!({"type": "object", "x-kubernetes-list-type": ""}),
            vec![
                "type: Invalid value: \"object\": must be array",
                "x-kubernetes-list-type: Unsupported value: \"\": supported values: \"atomic\", \"set\", \"map\"",
            ],
        ),
        (
            json!({"type": "object", "properties": {"n": {"type": "integer", "x-kubernetes-embedded-resource": true}}}),
            vec!["properties[n].properties: Required value", "properties[n].type: Invalid value"],
        ),
        (
            json!({"type": "object", "x-kubernetes-validations": [{"rule": " "}, {"rule": "true", "reason": "x", "fieldPath": ".x"}]}),
            vec![
                "x-kubernetes-validations[0].rule: Required value: rule is not specified",
                "x-kubernetes-validations[1].reason: Unsupported value",
                "x-kubernetes-validations[1].fieldPath: Invalid value: \".x\": must be a valid path",
            ],
        ),
    ];
    for (schema, wanted) in cases {
        let found: Vec<String> = check_schema(&schema, "s").iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), wanted.len(), "{found:?}");
        for (found, wanted) in found.iter().zip(wanted) {
            assert!(found.starts_with(&format!("s.{wanted}")), "{found}");
        }
    }
}

#[test]
fn values_are_refused_as_a_server_does() {
    let resource = |spec: Value| {
        let schema = json!({"type": "object", "properties": {"v": spec}});
        CustomResource::new("a.b/v1", "C", Some(&schema)).expect("shallow")
    };
    for (spec, value, wanted) in [
        (
            json!({"type": "string", "format": "date-time"}),
            json!(5),
            vec!["v in body must be of type date-time: \"int64\""],
        ),
        (
            json!({"type": "string", "format": "no-such"}),
            json!(5),
            vec!["v in body must be of type string: \"integer\""],
        ),
        (
            json!({"type": "string", "enum": ["b", "a"]}),
            json!(5),
            vec!["must be of type string", "supported values: \"b\", \"a\""],
        ),
        (
            json!({"type": "integer"}),
            json!(1.5),
            vec![
                "must be of type integer: \"number\"",
                "Checked value must be of type integer (default format) in v",
            ],
        ),
        (
            json!({"type": "number", "multipleOf": 0.5}),
            json!(1),
            vec!["factor MultipleOf declared for v must be positive: 0"],
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}),
            json!(["a", "a", "a"]),
            vec!["v[1]: Duplicate value: \"a\""],
        ),
    ] {
        let found = resource(spec).validate(&json!({"v": value})).expect("shallow");
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), wanted.len(), "{found:?}");
        for (found, wanted) in found.iter().zip(wanted) {
            assert!(found.ends_with(wanted) || found.contains(wanted), "{found}");
        }
    }
}

struct Checker;

impl RuleChecker for Checker {
    fn check_rule(
        &self,
        rule: &ValidationRule,
        value: &Value,
        old: Option<&Value>,
    ) -> Result<(), RuleFailure> {
        let holds = match rule.rule.as_str() {
            "self.num < 5" => value["a"].as_i64().is_none_or(|number| number < 5),
            _ => old.is_none_or(|old| old == value),
        };
        if holds { Ok(()) } else { Err(RuleFailure::default()) }
    }
}

#[test]
fn rules_are_asked_where_they_stand() {
    let resource = resource();
    assert!(resource.has_rules());
    let old = object(json!({"a": 1, "imm": "1"}));
    let new = object(json!({"a": 9, "imm": "2"}));
    let errors = resource.check_rules(&new, Some(&old), &[], &Checker).expect("shallow");
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        ["spec: Invalid value: num too big", r#"spec.imm: Invalid value: "2": imm is immutable"#]
    );
    let broken = object(json!({"a": "x"}));
    let errors = resource.validate(&broken).expect("shallow");
    let rules = resource.check_rules(&broken, None, &errors, &Checker).expect("shallow");
    assert_eq!(
        rules[0].to_string(),
        "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"
    );
}

#[test]
fn custom_resources_are_applied_by_their_own_types() {
    let resource = resource();
    let request = WriteRequest {
        manager: "m",
        api_version: "sp.test/v1",
        subresource: "",
        now: "2026-01-01T00:00:00Z",
        reset: None,
        served: &[],
    };
    let config = object(
        json!({"a": 1, "l": [{"k": "1", "v": 2}], "st": ["x"], "free": {"deep": {"x": [1]}}, "ios": "1%"}),
    );
    let applied = apply(None, &config, resource.object_type(), &request, false).expect("applies").object;
    assert_eq!(
        applied["metadata"]["managedFields"][0]["fieldsV1"].to_string(),
        concat!(
            r#"{"f:spec":{"f:a":{},"f:free":{"f:deep":{".":{},"f:x":{}}},"f:ios":{},"#,
            r#""f:l":{"k:{\"k\":\"1\"}":{".":{},"f:k":{},"f:v":{}}},"f:st":{"v:\"x\"":{}}}}"#
        )
    );
    let error = apply(None, &object(json!({"zz": 1})), resource.object_type(), &request, false)
        .expect_err("undeclared");
    assert!(error.to_string().ends_with(".spec.zz: field not declared in schema"), "{error}");
    let schemaless = CustomResource::new("sp.test/v1", "Spg", None).expect("compiles");
    assert!(apply(None, &object(json!({"zz": 1})), schemaless.object_type(), &request, false).is_ok());
}

proptest! {
    #[test]
    fn no_schema_and_no_object_panic(schema in crate::patch::any_json(), value in crate::patch::any_json()) {
        let _ = check_schema(&schema, "x");
        let resource = CustomResource::new("a.b/v1", "C", Some(&schema)).unwrap();
        let mut value = value;
        let _ = resource.validate(&value);
        let _ = resource.prune_unknown_fields(&mut value);
        let _ = resource.set_defaults(&mut value);
    }
}
