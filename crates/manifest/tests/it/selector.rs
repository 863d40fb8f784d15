//! Selectors with Kubernetes' texts.

use proptest::prelude::*;
use serde_json::json;
use slipway_manifest::selector::{FieldSelector, LabelSelector};

#[test]
fn label_selectors_select() {
    let object = json!({"metadata": {"labels": {"app": "web", "tier": "front", "n": "5"}}});
    for (text, selects) in [
        ("", true),
        ("app=web", true),
        ("app==web,tier!=back", true),
        ("app!=web", false),
        ("nope!=x", true),
        ("app in (web, api)", true),
        ("app notin (web)", false),
        ("nope notin (web)", true),
        ("app", true),
        ("!app", false),
        ("!nope", true),
        ("n>4,n<6", true),
        ("n>5", false),
        ("app in (,web)", true),
        ("in=x", false),
        ("app=", false),
    ] {
        let selector = LabelSelector::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(selector.matches_object(&object), selects, "{text}");
        let again = LabelSelector::parse(&selector.to_string()).expect("prints what it reads");
        assert_eq!(again, selector, "{text}");
    }
}

#[test]
fn label_selectors_fail_as_a_server_words_it() {
    for (text, message) in [
        ("a in", "unable to parse requirement: found '' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a=b,", "found '', expected: identifier after ','"),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        (
            "n>x",
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
    ] {
        assert_eq!(
            LabelSelector::parse(text).map_err(|error| error.to_string()),
            Err(message.to_owned()),
            "{text}"
        );
    }
    let error = LabelSelector::parse("a=-x").expect_err("no label value").to_string();
    assert!(
        error.starts_with(
            "unable to parse requirement: values[0][a]: Invalid value: \"-x\": a valid label must be"
        ),
        "{error}"
    );
    let error = LabelSelector::parse("-a=x").expect_err("no label key").to_string();
    assert!(
        error
            .starts_with("unable to parse requirement: <nil>: Invalid value: \"-a\": name part must consist"),
        "{error}"
    );
}

#[test]
fn object_selectors_select() {
    let selector = json!({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["dev"]}]});
    let selector = LabelSelector::from_object(&selector).expect("reads").expect("not null");
    assert_eq!(selector.to_string(), "app=web,env!=dev");
    assert_eq!(LabelSelector::from_object(&json!(null)), Ok(None));
    let error = LabelSelector::from_object(&json!({"matchExpressions": [{"key": "a", "operator": "Foo"}]}))
        .expect_err("no operator");
    assert_eq!(error.to_string(), "\"Foo\" is not a valid label selector operator");
}

#[test]
fn field_selectors_select() {
    let field = |name: &str| match name {
        "metadata.name" => Some("a,b"),
        "status.phase" => Some("Running"),
        _ => None,
    };
    for (text, selects) in [
        ("", true),
        ("metadata.name=a\\,b", true),
        ("status.phase!=Running", false),
        ("status.phase==Running,spec.nodeName=", true),
        ("spec.nodeName!=x", true),
    ] {
        let selector = FieldSelector::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(selector.matches(field), selects, "{text}");
        assert_eq!(FieldSelector::parse(&selector.to_string()), Ok(selector), "{text}");
    }
    for (text, message) in [
        ("foo", "invalid selector: 'foo'; can't understand 'foo'"),
        ("a=b,foo", "invalid selector: 'a=b,foo'; can't understand 'foo'"),
        ("a=\\q", "invalid field selector: invalid escape sequence: \\q"),
    ] {
        assert_eq!(FieldSelector::parse(text).map_err(|error| error.to_string()), Err(message.to_owned()));
    }
}

proptest! {
    #[test]
    fn no_selector_panics(text in r"[a-c!=<>(), \\in-]{0,16}") {
        let _ = LabelSelector::parse(&text);
        let _ = FieldSelector::parse(&text);
    }

    #[test]
    fn no_quantity_panics(text in r"[+-]?[0-9.]{0,40}[eEinumkKMGTP]{0,2}[-+]?[0-9]{0,12}") {
        if let Ok(quantity) = slipway_manifest::quantity::Quantity::parse(&text) {
            let printed = quantity.to_string();
            prop_assert_eq!(slipway_manifest::quantity::Quantity::parse(&printed).unwrap(), quantity);
        }
    }
}
