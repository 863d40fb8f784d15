//! No input panics.

use proptest::prelude::*;
use serde_json::json;
use slipway_go::strconv;
use slipway_gotmpl::{GoValue, NoHost, RenderLimits, fmt};

use crate::world::render_with;

const PIECES: &[&str] = &[
    "{{",
    "}}",
    "{{-",
    "-}}",
    " ",
    "\n",
    "\"",
    "`",
    "'",
    "(",
    ")",
    "|",
    ":=",
    "=",
    ",",
    ".",
    "$",
    "$x",
    ".x",
    "end",
    "else",
    "if",
    "range",
    "with",
    "define",
    "template",
    "block",
    "break",
    "continue",
    "nil",
    "true",
    "1",
    "0x",
    "1e9",
    "-",
    "+",
    "/*",
    "*/",
    "é",
    "\t",
    "print",
    "printf",
    "index",
    "len",
    "include",
    "tpl",
    "{{end}}",
    "{{else}}",
    "\"a\"",
    ".Values",
    ".Values.l",
    "eq",
    "and",
    "{{ range .Values.l }}",
    "\u{0}",
];

fn template() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        8 => proptest::sample::select(PIECES).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|p| p.concat())
}

fn value() -> impl Strategy<Value = GoValue> {
    let leaf = prop_oneof![
        Just(GoValue::Nil),
        any::<bool>().prop_map(GoValue::Bool),
        any::<i64>().prop_map(GoValue::Int),
        any::<u8>().prop_map(GoValue::Uint8),
        any::<f64>().prop_map(GoValue::Float64),
        (any::<f64>(), any::<f64>()).prop_map(|(a, b)| GoValue::Complex128(a, b)),
        any::<Vec<u8>>().prop_map(GoValue::from),
    ];
    leaf.prop_recursive(2, 8, 4, |inner| proptest::collection::vec(inner, 0..4).prop_map(GoValue::list))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_text_is_a_template_or_an_error(text in template()) {
        let limits = RenderLimits { steps: 10_000, ..RenderLimits::default() };
        let values = json!({"l": [1, null, "a"]});
        let library = slipway_gotmpl::FuncMap::new();
        let _ = render_with(text.as_bytes(), &values, &library, &limits, &NoHost);
    }

    #[test]
    fn any_format_prints(
        format in "(%[-+# 0]{0,2}[0-9\\[\\]*]{0,3}(\\.[0-9*]{0,2})?[a-zA-Z%é]?|[a-z]){0,4}",
        args in proptest::collection::vec(value(), 0..4),
    ) {
        let _ = fmt::sprintf(format.as_bytes(), &args, 1 << 20);
    }

    #[test]
    fn quoting_reads_back(bytes: Vec<u8>) {
        let quoted = strconv::quote(&bytes);
        prop_assert_eq!(strconv::unquote(&quoted), Some(bytes.clone()));
        prop_assert_eq!(strconv::unquote(&strconv::quote_ascii(&bytes)), Some(bytes));
    }

    #[test]
    fn shortest_floats_read_back(n in any::<f64>().prop_filter("finite", |n| n.is_finite())) {
        for verb in [b'e', b'f', b'g', b'x'] {
            let text = strconv::format_float(n, verb, -1);
            prop_assert_eq!(strconv::parse_float(&text), Ok(n), "{}", text);
        }
    }

    #[test]
    fn any_literal_unquotes_or_not(text: Vec<u8>) {
        let _ = strconv::unquote(&text);
        let text = String::from_utf8_lossy(&text);
        let _ = (strconv::parse_float(&text), strconv::parse_int(&text, 0));
    }
}
