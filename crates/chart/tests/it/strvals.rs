//! The little language of `--set`, checked against what Helm answered.

use serde_json::{Value, json};
use slipway_chart::UserValues;

/// Flags, and the values or the error they give.
type Case = (&'static [(&'static str, &'static str)], &'static str);

fn user_values(flags: &[(&str, &str)]) -> UserValues {
    let mut values = UserValues::default();
    for (flag, text) in flags {
        let list = match *flag {
            "--set" => &mut values.set,
            "--set-string" => &mut values.set_string,
            "--set-json" => &mut values.set_json,
            "--set-file" => &mut values.set_file,
            "--set-literal" => &mut values.set_literal,
            other => panic!("unknown flag {other}"),
        };
        list.push((*text).to_owned());
    }
    values
}

/// Whole floats print as integers, as in Go's JSON.
fn as_go_json(value: Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 => json!(float as i64),
            _ => Value::Number(number),
        },
        Value::Array(items) => items.into_iter().map(as_go_json).collect(),
        Value::Object(map) => map.into_iter().map(|(key, value)| (key, as_go_json(value))).collect(),
        other => other,
    }
}

#[test]
fn flags_become_values() {
    let cases: &[Case] = &[
        (&[("--set", "a=1")], r#"{"a": 1}"#),
        (&[("--set", "a=1.5")], r#"{"a": "1.5"}"#),
        (&[("--set", "a=1e6")], r#"{"a": "1e6"}"#),
        (&[("--set", "a=01")], r#"{"a": "01"}"#),
        (&[("--set", "a=0")], r#"{"a": 0}"#),
        (&[("--set", "a=-1")], r#"{"a": -1}"#),
        (&[("--set", "a=+1")], r#"{"a": 1}"#),
        (&[("--set", "a=0x10")], r#"{"a": "0x10"}"#),
        (&[("--set", "a=true,b=FALSE,c=null,d=Null")], r#"{"a": true, "b": false, "c": null, "d": null}"#),
        (&[("--set", "a=")], r#"{"a": ""}"#),
        (&[("--set", "a")], r#"failed parsing --set data: key "a" has no value"#),
        (&[("--set", "a,b=1")], r#"failed parsing --set data: key "a" has no value (cannot end with ,)"#),
        (&[("--set", "a=1,")], r#"{"a": 1}"#),
        (&[("--set", r"a=b\,c")], r#"{"a": "b,c"}"#),
        (&[("--set", r"a\.b=1")], r#"{"a.b": 1}"#),
        (&[("--set", "a.b.c=1")], r#"{"a": {"b": {"c": 1}}}"#),
        (&[("--set", "a={1,x,true}")], r#"{"a": [1, "x", true]}"#),
        (&[("--set", "a={}")], r#"{"a": [""]}"#),
        (&[("--set", "a={1")], "failed parsing --set data: list must terminate with '}'"),
        (&[("--set", "a={1,2}x")], r#"failed parsing --set data: key "x" has no value"#),
        (&[("--set", "a[0]=x,a[2]=y")], r#"{"a": ["x", null, "y"]}"#),
        (&[("--set", "a[0].b=1,a[0].c=2")], r#"{"a": [{"b": 1, "c": 2}]}"#),
        (&[("--set", "a[0][1]=z")], r#"{"a": [[null, "z"]]}"#),
        (&[("--set", "a[-1]=x")], "failed parsing --set data: negative -1 index not allowed"),
        (
            &[("--set", "a[65537]=x")],
            "failed parsing --set data: index of 65537 is greater than maximum supported index of 65536",
        ),
        (
            &[("--set", "a[x]=1")],
            r#"failed parsing --set data: error parsing index: strconv.Atoi: parsing "x": invalid syntax"#,
        ),
        (&[("--set", "a[0=1")], "failed parsing --set data: error parsing index: EOF"),
        (&[("--set", "a[0]x=1")], "failed parsing --set data: unexpected data at end of array index: ['x']"),
        (
            &[("--set", "a=1,a.b=2")],
            "failed parsing --set data: unable to parse key: interface conversion: interface {} is int64, not map[string]interface {}",
        ),
        (&[("--set", "a.b=1,a=2")], r#"{"a": 2}"#),
        (&[("--set", "a=9223372036854775808")], r#"{"a": "9223372036854775808"}"#),
        (&[("--set", "a=9223372036854775807")], r#"{"a": 9223372036854775807}"#),
        (&[("--set", "a= b ")], r#"{"a": " b "}"#),
        (&[("--set", "a=b=c")], r#"{"a": "b=c"}"#),
        (&[("--set", "=x")], "{}"),
        (&[("--set", "a..b=1")], r#"failed parsing --set data: key map "a" has no value"#),
        (&[("--set", ".a=1")], "{}"),
        (&[("--set", "a.=1")], r#"failed parsing --set data: key map "a" has no value"#),
        (&[("--set", r"a=\{x")], r#"{"a": "{x"}"#),
        (&[("--set", r"a=x\\y")], r#"{"a": "x\\y"}"#),
        (&[("--set", "a=yes,b=~")], r#"{"a": "yes", "b": "~"}"#),
        (&[("--set-string", "a=1,b=true,c=null")], r#"{"a": "1", "b": "true", "c": "null"}"#),
        (&[("--set-string", "a={1,2}")], r#"{"a": ["1", "2"]}"#),
        (&[("--set-json", r#"a={"b":[1,2.5,null]}"#)], r#"{"a": {"b": [1, 2.5, null]}}"#),
        (&[("--set-json", "a=1,b=[1]")], r#"{"a": 1, "b": [1]}"#),
        (&[("--set-json", r#"{"a":1}"#)], r#"failed parsing --set-json data {"a":1}"#),
        (&[("--set-json", "a=")], r#"{"a": null}"#),
        (&[("--set-json", "a={x")], "failed parsing --set-json data a={x"),
        (&[("--set-json", r#"a[0]={"x":1}"#)], r#"{"a": [{"x": 1}]}"#),
        (&[("--set-literal", r"a=x,y={z}\q")], r#"{"a": "x,y={z}\\q"}"#),
        (&[("--set-literal", "a.b[0]=c=d")], r#"{"a": {"b": ["c=d"]}}"#),
        (&[("--set-literal", "a=")], r#"{"a": ""}"#),
        (&[("--set", "a={b,c},d=1")], r#"{"a": ["b", "c"], "d": 1}"#),
        (&[("--set", "a=null")], r#"{"a": null}"#),
        (&[("--set", "l[1]=9")], r#"{"l": [null, 9]}"#),
        (&[("--set", "l={}")], r#"{"l": [""]}"#),
        (&[("--set", "m.x=5")], r#"{"m": {"x": 5}}"#),
        (&[("--set", "m=5")], r#"{"m": 5}"#),
        (&[("--set", "m.x=null")], r#"{"m": {"x": null}}"#),
        (&[("--set", "m=null")], r#"{"m": null}"#),
        (&[("--set", "i=null")], r#"{"i": null}"#),
        (&[("--set-json", r#"m={"q":1}"#)], r#"{"m": {"q": 1}}"#),
        (&[("--set", "s.x=1")], r#"{"s": {"x": 1}}"#),
        (&[("--set", "a={,}")], r#"{"a": ["", ""]}"#),
        (&[("--set", "a={ x, y }")], r#"{"a": [" x", " y "]}"#),
        (&[("--set", r#"a="x""#)], r#"{"a": "\"x\""}"#),
        (&[("--set", "t=tRuE")], r#"{"t": true}"#),
        (&[("--set", "a=00")], r#"{"a": "00"}"#),
        (&[("--set", "a=-0")], r#"{"a": 0}"#),
        (&[("--set", "a=-01")], r#"{"a": -1}"#),
        (&[("--set", "a[0].b.c[1]=1")], r#"{"a": [{"b": {"c": [null, 1]}}]}"#),
        (&[("--set", "a[1].b=1,a[0]=x")], r#"{"a": ["x", {"b": 1}]}"#),
        (&[("--set", "a=1"), ("--set", "a=2")], r#"{"a": 2}"#),
        (&[("--set", "a=1"), ("--set-string", "a=2"), ("--set-json", "a=3")], r#"{"a": "2"}"#),
        (&[("--set", "a={{{x}}}")], r#"failed parsing --set data: key "}}" has no value"#),
    ];
    for (flags, expected) in cases {
        match user_values(flags).build_map() {
            Ok(values) => {
                let expected: Value = serde_json::from_str(expected)
                    .unwrap_or_else(|_| panic!("{flags:?} should fail with {expected}, gave {values:?}"));
                assert_eq!(as_go_json(Value::Object(values)), expected, "{flags:?}");
            }
            Err(error) => assert_eq!(error.to_string(), *expected, "{flags:?}"),
        }
    }
}

#[test]
fn number_types_differ_between_flags() {
    let values = user_values(&[("--set", "a=1"), ("--set-json", "b=1")]).build_map().unwrap();
    assert!(values["a"].is_i64());
    assert!(values["b"].is_f64());
}

#[test]
fn names_nest_only_so_deep() {
    let deep = format!("{}a=1", "a.".repeat(31));
    let error = user_values(&[("--set", &deep)]).build_map().unwrap_err();
    assert_eq!(
        error.to_string(),
        "failed parsing --set data: value name nested level is greater than maximum supported nested level of 30"
    );
    let lists = format!("a{}=1", "[0]".repeat(5000));
    assert!(user_values(&[("--set", &lists)]).build_map().is_err());
}

#[test]
fn set_file_reads_the_file() {
    let error = user_values(&[("--set-file", "a=/nonexist")]).build_map().unwrap_err();
    assert_eq!(
        error.to_string(),
        "failed parsing --set-file data: open /nonexist: no such file or directory"
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "two\nlines\n").unwrap();
    let flag = format!("a.b={}", file.path().display());
    let values = user_values(&[("--set-file", &flag)]).build_map().unwrap();
    assert_eq!(Value::Object(values), json!({"a": {"b": "two\nlines\n"}}));
}

#[test]
fn later_files_win_and_null_stays() {
    let mut values = UserValues::default();
    values.files.push(("a.yaml".into(), b"a: {x: 1, w: 2}\nl: [1, 2]\n".to_vec()));
    values.files.push(("b.yaml".into(), b"a: {w: null, z: 3}\nl: [3]\n".to_vec()));
    let built = as_go_json(Value::Object(values.build_map().unwrap()));
    assert_eq!(built, json!({"a": {"x": 1, "w": null, "z": 3}, "l": [3]}));
    values.files.push(("c.yaml".into(), b"- 1\n".to_vec()));
    assert_eq!(
        values.build_map().unwrap_err().to_string(),
        "failed to parse c.yaml: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value of type map[string]interface {}"
    );
}

#[test]
fn files_may_lie_at_addresses() {
    let mut user = UserValues {
        set_file: vec!["a=http://example.org/a,b=https://example.org/b".into(), "c=no/such/file".into()],
        ..UserValues::default()
    };
    assert_eq!(user.addresses(), ["http://example.org/a", "https://example.org/b"]);
    user.downloads = user.addresses().into_iter().map(|address| (address, b"text".to_vec())).collect();
    user.set_file.truncate(1);
    assert_eq!(Value::Object(user.build_map().unwrap()), json!({"a": "text", "b": "text"}));
}
