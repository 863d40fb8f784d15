//! Leaves, traces, labels as truth values, the time.

use serde_json::json;
use slipway_cel::{Bindings, CelErrorKind, Env, EvalErrorKind, Library, Overload, Type, Value};

fn env() -> Env {
    let object = Type::object("schedule", [("hour", Type::Int), ("isWeekend", Type::Bool)]);
    let zoned = Overload::method("in", vec![object.clone(), Type::String], object.clone(), |_, args| {
        Ok(args[0].clone())
    });
    let bundle = Type::object(
        "bundle",
        [
            ("labels", Type::map(Type::String, Type::String)),
            ("soak", Type::Int),
            ("images", Type::list(Type::String)),
        ],
    );
    Env::new()
        .library(Library::Clock)
        .library(Library::Optionals)
        .variable("schedule", object)
        .variable("bundle", bundle)
        .variable("metrics", Type::map(Type::String, Type::Double))
        .flags("bundle.labels")
        .function(zoned)
}

/// The leaves read, as `text = value (operator literal)`.
fn read(text: &str) -> Vec<String> {
    let schedule = json!({"hour": 3, "isWeekend": true});
    let bundle = json!({"labels": {"hotfix": "true", "team": "shop"}, "soak": 12, "images": ["a", "b"]});
    let metrics = json!({"success-rate": 0.5});
    let bindings =
        Bindings::new().json("schedule", &schedule).json("bundle", &bundle).json("metrics", &metrics);
    let program = env().compile_as(text, &Type::Bool).unwrap_or_else(|errors| panic!("{text}: {errors:?}"));
    let trace = program.trace(&bindings.now("2026-04-10T12:00:00Z".parse().expect("is a time")));
    let shown = |read: &slipway_cel::LeafRead<'_>| {
        let leaf = &program.leaves()[read.leaf];
        let value = read.value.as_ref().map_or("none".to_owned(), ToString::to_string);
        match &leaf.comparison {
            Some(with) => format!("{} = {value} ({} {})", leaf.text, with.operator, with.literal),
            None => format!("{} = {value}", leaf.text),
        }
    };
    trace.reads.iter().map(shown).collect()
}

#[test]
fn a_trace_holds_the_leaves_that_were_reached() {
    for (text, expected) in [
        ("!schedule.isWeekend", vec!["schedule.isWeekend = true"]),
        ("schedule.isWeekend || bundle.soak >= 30", vec!["schedule.isWeekend = true"]),
        (
            "!schedule.isWeekend || bundle.soak >= 30",
            vec!["schedule.isWeekend = true", "bundle.soak = 12 (>= 30)"],
        ),
        ("30 <= bundle.soak", vec!["bundle.soak = 12 (>= 30)"]),
        ("schedule.in(\"Europe/Berlin\").hour < 9", vec!["schedule.in(\"Europe/Berlin\").hour = 3 (< 9)"]),
        ("metrics[\"success-rate\"] >= 0.99", vec!["metrics[\"success-rate\"] = 0.5 (>= 0.99)"]),
        ("metrics.absent > 1.0", vec!["metrics.absent = none (> 1.0)"]),
        (
            "schedule.isWeekend ? bundle.soak > 1 : schedule.hour > 1",
            vec!["schedule.isWeekend = true", "bundle.soak = 12 (> 1)"],
        ),
        ("bundle.labels.team in ['shop', 'x']", vec!["bundle.labels.team = shop (in [\"shop\", \"x\"])"]),
        ("has(bundle.labels.absent)", vec!["has(bundle.labels.absent) = false"]),
        (
            "bundle.images.all(i, i != bundle.labels.team)",
            vec!["bundle.images = [\"a\",\"b\"]", "bundle.labels.team = shop"],
        ),
        ("now() > timestamp('2026-01-01T00:00:00Z')", vec!["now() = 2026-04-10T12:00:00Z"]),
    ] {
        assert_eq!(read(text), expected, "{text}");
    }
}

#[test]
fn an_error_names_its_leaf() {
    let metrics = json!({});
    let program = env().compile("metrics[\"rate\"] > 1.0 || schedule.isWeekend").expect("compiles");
    let error = program.eval(&Bindings::new().json("metrics", &metrics)).expect_err("nothing is bound");
    assert!(matches!(error.kind, EvalErrorKind::NoSuchKey { .. }), "{error:?}");
    assert_eq!(program.leaf_of(&error).map(|leaf| leaf.variable.as_str()), Some("metrics"));
}

#[test]
fn labels_stand_for_truth_where_it_is_asked_for() {
    let bundle = json!({"labels": {"yes": "true", "no": "false", "odd": "1"}, "soak": 1, "images": []});
    for (text, expected) in [
        ("bundle.labels.yes == true", Some(true)),
        ("bundle.labels.yes == \"true\"", Some(true)),
        ("true == bundle.labels['yes']", Some(true)),
        ("bundle.labels.yes != false", Some(true)),
        ("bundle.labels.no == true", Some(false)),
        ("bundle.labels.odd == true", Some(false)),
        ("bundle.labels.yes", Some(true)),
        ("!bundle.labels.no && bundle.labels.yes", Some(true)),
        ("bundle.labels.yes ? bundle.labels.no : true", None),
        ("bundle.labels.odd && true", None),
        ("bundle.labels.absent == true", None),
    ] {
        let found = match env().compile_as(text, &Type::Bool) {
            Ok(program) => program.eval_bool(&Bindings::new().json("bundle", &bundle)).ok(),
            Err(_) => None,
        };
        assert_eq!(found, expected, "{text}");
    }
    // Only labels: other texts stay texts, and a loop's variable hides the name.
    for text in ["schedule.hour == true", "[{'labels': {'a': 'b'}}].all(bundle, bundle.labels.a == true)"] {
        let errors = env().compile(text).expect_err("types differ");
        assert_eq!(errors[0].kind, CelErrorKind::NoOverload, "{text}");
    }
}

#[test]
fn the_time_is_what_the_bindings_say() {
    let program = env().compile("now()").expect("compiles");
    assert!(program.reads_clock());
    let at = "2026-04-10T12:00:00Z".parse().expect("is a time");
    assert_eq!(program.eval(&Bindings::new().now(at)), Ok(Value::Timestamp(at)));
    assert!(program.eval(&Bindings::new()).is_err());
}
