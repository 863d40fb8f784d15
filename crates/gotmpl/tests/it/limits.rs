//! Hostile templates end in an error, soon.

use serde_json::json;
use slipway_gotmpl::{FuncMap, GoList, GoMap, GoType, GoValue, NoHost, RenderLimits};

use crate::world::render_with;

fn library() -> FuncMap {
    let mut map = FuncMap::new();
    map.add_variadic("list", &[], GoType::Any, GoType::List, |_, args| {
        Ok(GoList::new(args.rest(0).to_vec()).into())
    });
    map.add("loop", &[], GoType::Map, |_, _| {
        let m = GoMap::new();
        m.insert("self", GoValue::Map(m.clone()));
        Ok(m.into())
    });
    map.add("until", &[GoType::Int], GoType::IntList, |ctx, args| {
        let n = usize::try_from(args.int(0)).unwrap_or(0);
        ctx.charge(n.saturating_mul(24))?;
        Ok(GoList::of(slipway_gotmpl::ListKind::Int, (0..args.int(0)).map(GoValue::Int).collect()).into())
    });
    map
}

fn fails(template: &str, limits: &RenderLimits) -> String {
    let values = json!({"self": "{{ tpl .Values.self . }}"});
    match render_with(template.as_bytes(), &values, &library(), limits, &NoHost) {
        Ok(out) => panic!("{template}: gave {} bytes", out.len()),
        Err(text) => text,
    }
}

#[test]
fn recursion_ends() {
    let limits = RenderLimits { template_depth: 20_000, ..RenderLimits::default() };
    let text = fails("{{ define \"a\" }}{{ template \"a\" . }}{{ end }}{{ template \"a\" . }}", &limits);
    assert_eq!(
        text,
        "template: snip/templates/t.yaml:1:28: executing \"a\" at <{{template \"a\" .}}>: exceeded maximum template depth (20000)"
    );
    let text = fails("{{ define \"a\" }}{{ include \"a\" . }}{{ end }}{{ include \"a\" . }}", &limits);
    assert!(
        text.ends_with("rendering template has a nested reference name: a: unable to execute template"),
        "{}",
        &text[text.len() - 200..]
    );
    assert_eq!(text.matches("error calling include").count(), 1002);
    let text = fails("{{ tpl .Values.self . }}", &limits);
    assert!(text.ends_with("tpl is nested more than 1000 levels deep"), "{}", &text[text.len() - 200..]);
}

#[test]
fn loops_and_bombs_end() {
    let limits = RenderLimits { steps: 100_000, value_bytes: 1 << 20, ..RenderLimits::default() };
    let nested = "{{ range until 1000 }}{{ range until 1000 }}{{ end }}{{ end }}";
    assert!(fails(nested, &limits).ends_with("rendering took more than 100000 steps"));
    assert!(fails("{{ range until 1000000000 }}{{ end }}", &limits).contains("the limit is 1048576 bytes"));
    let doubling = format!("{{{{ $x := list 1 }}}}{}{{{{ $x }}}}", "{{ $x = list $x $x }}".repeat(40));
    assert!(fails(&doubling, &limits).ends_with("longer than the limit of 1048576 bytes"));
    assert!(fails("{{ loop }}", &limits).contains("contains itself"));
    assert!(fails("{{ printf \"%v\" loop }}", &limits).contains("contains itself"));
    let long = "{{ range until 1000 }}".to_owned() + &"x".repeat(4096) + "{{ end }}";
    assert!(fails(&long, &limits).ends_with("the output is longer than the limit of 1048576 bytes"));
}

#[test]
fn text_may_not_nest_without_end() {
    let limits = RenderLimits::default();
    for (open, close) in [("(", ")"), ("{{ if 1 }}", "{{ end }}"), ("{{ if 0 }}{{ else if 1 }}", "{{ end }}")]
    {
        let deep = match open {
            "(" => format!("{{{{ {}1{} }}}}", open.repeat(100_000), close.repeat(100_000)),
            _ => open.repeat(100_000) + &close.repeat(100_000),
        };
        assert!(fails(&deep, &limits).contains("nests more than 2000 levels deep"));
    }
    let fine = format!("{{{{ {}1{} }}}}", "(".repeat(1500), ")".repeat(1500));
    assert_eq!(render_with(fine.as_bytes(), &json!({}), &library(), &limits, &NoHost), Ok(b"1".to_vec()));
}

#[test]
fn time_runs_out_in_loops_calls_and_large_values() {
    let limits = RenderLimits { time: Some(std::time::Duration::ZERO), ..RenderLimits::default() };
    for template in [
        "{{ range until 10000 }}{{ end }}",
        "{{ define \"a\" }}{{ template \"a\" . }}{{ end }}{{ template \"a\" . }}",
        "{{ $x := 1 }}{{ range until 10000 }}{{ $x = list $x }}{{ end }}",
        "{{ $x := until 100000 }}",
    ] {
        let text = fails(template, &limits);
        assert!(text.ends_with("rendering took longer than 0ns"), "{text}");
    }
    let small = render_with(b"{{ list 1 }}", &json!({}), &library(), &limits, &NoHost);
    assert_eq!(small, Ok(b"[1]".to_vec()), "what takes no time has none to lose");
}

#[test]
fn rendering_ends_when_nobody_waits_for_it() {
    struct Stopped;
    impl slipway_gotmpl::TemplateHost for Stopped {
        fn is_stopped(&self) -> bool {
            true
        }
    }
    let template = b"{{ range until 10000 }}{{ end }}";
    let text = render_with(template, &json!({}), &library(), &RenderLimits::default(), &Stopped).unwrap_err();
    assert!(text.ends_with("rendering was stopped"), "{text}");
}
