//! Pipelines after `|` in a reference: Go template pipelines over functions that always say the same.

use std::sync::{Arc, LazyLock};

use slipway_gotmpl::{
    FuncArgs, FuncContext, FuncError, FuncMap, GoKind, GoType, GoValue, NoHost, RenderLimits,
    TemplateRenderer, TemplateSet, sprig,
};
use slipway_problem::nearest;

/// Functions that answer differently each time, look at the machine, or make keys.
const REFUSED: &[&str] = &[
    "ago",
    "randInt",
    "shuffle",
    "encryptAES",
    "now",
    "date",
    "dateInZone",
    "date_in_zone",
    "dateModify",
    "date_modify",
    "htmlDate",
    "htmlDateInZone",
    "randAlpha",
    "randAlphaNum",
    "randAscii",
    "randNumeric",
    "randBytes",
    "uuidv4",
    "env",
    "expandenv",
    "getHostByName",
    "bcrypt",
    "htpasswd",
    "genPrivateKey",
    "genCA",
    "genCAWithKey",
    "genSelfSignedCert",
    "genSelfSignedCertWithKey",
    "genSignedCert",
    "genSignedCertWithKey",
    "call",
];
/// Stands last in every pipeline and lets only scalars through.
const SCALAR: &str = "scalarResult";

/// A mistake in a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PipelineError {
    Syntax(String),
    /// A function that does not exist or is not allowed, and what to do about it.
    Function {
        message: String,
        hint: Option<String>,
    },
    Evaluation(String),
}

static FUNCTIONS: LazyLock<Arc<FuncMap>> = LazyLock::new(|| {
    let mut functions = FuncMap::builtins();
    functions.extend(&sprig::functions());
    for name in REFUSED {
        functions.remove(name);
    }
    // Sprig answers junk with the text of an error, which must not end up in a cluster.
    for name in ["b64dec", "b32dec"] {
        let Some(lenient) = functions.get(name).cloned() else { continue };
        functions.add(
            name,
            &[GoType::String],
            GoType::String,
            move |ctx: &mut FuncContext<'_>, args: FuncArgs<'_>| {
                let decoded = lenient.call(ctx, args.0).unwrap_or(Ok(GoValue::Nil))?;
                match decoded.as_str() {
                    Some(text) if text.as_bytes().starts_with(b"illegal base") => {
                        Err(FuncError::new("the value is not encoded that way"))
                    }
                    _ => Ok(decoded),
                }
            },
        );
    }
    functions.add(
        "fail",
        &[GoType::String],
        GoType::String,
        |_: &mut FuncContext<'_>, args: FuncArgs<'_>| Err(FuncError::new(args.text(0).into_owned())),
    );
    functions.add(SCALAR, &[GoType::Any], GoType::Any, |_: &mut FuncContext<'_>, args: FuncArgs<'_>| {
        match args.get(0).kind() {
            GoKind::Slice | GoKind::Map | GoKind::Invalid => {
                Err(FuncError::new("the result is no scalar; produce one with `join` or `toJson`"))
            }
            _ => Ok(args.get(0).clone()),
        }
    });
    Arc::new(functions)
});

/// Compiles a pipeline without running it.
pub(super) fn check(pipeline: &str) -> Result<(), PipelineError> {
    parse(pipeline).map(drop)
}

/// Puts a value through a pipeline.
pub(super) fn run(value: &str, pipeline: &str) -> Result<String, PipelineError> {
    let set = parse(pipeline)?;
    let output = TemplateRenderer::new(&set, &LIMITS, &NoHost)
        .execute(TEMPLATE, &GoValue::str(value))
        .map_err(|error| PipelineError::Evaluation(reason(&error.to_string()).to_owned()))?;
    let output = String::from_utf8(output)
        .map_err(|_| PipelineError::Evaluation("the result is not UTF-8 text".into()))?;
    if pipeline.contains("printf") && output.contains("%!") {
        return Err(PipelineError::Evaluation(format!("a verb does not fit its argument: `{output}`")));
    }
    Ok(output)
}

const TEMPLATE: &str = "pipeline";

static LIMITS: LazyLock<RenderLimits> = LazyLock::new(|| RenderLimits {
    steps: 1_000_000,
    value_bytes: 8 << 20,
    total_bytes: 64 << 20,
    ..RenderLimits::default()
});

fn parse(pipeline: &str) -> Result<TemplateSet, PipelineError> {
    if pipeline.trim().is_empty() {
        return Err(PipelineError::Syntax("nothing follows `|`".into()));
    }
    let mut set = TemplateSet::new(Arc::clone(&FUNCTIONS), &LIMITS);
    // The value is data: only what follows it is compiled.
    let text = format!("{{{{ . | {pipeline} | {SCALAR} }}}}");
    set.parse(TEMPLATE, &text).map_err(|error| {
        let message = error.to_string();
        let message = reason(&message);
        match message.strip_prefix("function \"").and_then(|rest| rest.strip_suffix("\" not defined")) {
            Some(name) => unknown(name),
            None => PipelineError::Syntax(message.to_owned()),
        }
    })?;
    Ok(set)
}

fn unknown(name: &str) -> PipelineError {
    if REFUSED.contains(&name) {
        return PipelineError::Function {
            message: format!("`{name}` is not allowed here"),
            hint: Some("a document must say the same every time it is read".into()),
        };
    }
    let hint = nearest(name, FUNCTIONS.names().into_iter().filter(|known| *known != SCALAR));
    PipelineError::Function {
        message: format!("there is no function `{name}`"),
        hint: hint.map(|name| format!("did you mean `{name}`?")),
    }
}

/// Returns a message of the engine without the places in a template nobody sees.
fn reason(message: &str) -> &str {
    let message = message.rsplit_once(">: ").map_or(message, |(_, reason)| reason);
    let message = message.strip_prefix("template: ").unwrap_or(message);
    let mut rest = message;
    // `pipeline:1:23: ` and `pipeline:1: `
    if let Some(after) = rest.strip_prefix(TEMPLATE) {
        rest = after.trim_start_matches(|c: char| c == ':' || c.is_ascii_digit()).trim_start();
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors() {
        for (pipeline, value, expected) in [
            (" lower | trunc 5", "KHOOK-9", "khook"),
            (r#"replace "." "-""#, "a.b.c", "a-b-c"),
            ("b64enc", "hush", "aHVzaA=="),
            (r#"default "none""#, "", "none"),
            ("urlquery", "a b+c/d", "a+b%2Bc%2Fd"),
            ("quote", "a\"b", r#""a\"b""#),
            (r#"splitList ","|last"#, "a,b", "b"),
            ("add 1", "41", "42"),
            (r#"eq "on"|ternary "y" "n""#, "on", "y"),
            (r#"atoi|printf "%05d""#, "7", "00007"),
            (r#"replace "\x7d" """#, "a}b", "ab"),
            (r#"printf "%sm""#, "5", "5m"),
            ("b64dec", "aHVzaA==", "hush"),
            ("trunc -3", "abcdef", "def"),
            ("splitList \",\" | join \"-\"", "a,b", "a-b"),
        ] {
            assert_eq!(run(value, pipeline), Ok(expected.to_owned()), "{pipeline}");
        }
    }

    #[test]
    fn refusals() {
        for pipeline in
            [r#"splitList ",""#, r#"ternary "y" "n" (eq . "on")"#, r#"printf "%05d""#, "b64dec", "fail"]
        {
            let result = run("a,b!", pipeline);
            assert!(matches!(result, Err(PipelineError::Evaluation(_))), "{pipeline}: {result:?}");
        }
        for pipeline in ["now", "env", "uper", "call", "if"] {
            assert!(
                matches!(check(pipeline), Err(PipelineError::Function { .. } | PipelineError::Syntax(_))),
                "{pipeline}"
            );
        }
        for pipeline in ["", " ", "\"a\"", "(", "upper |", "$x := 1", "/* no */"] {
            assert!(matches!(check(pipeline), Err(PipelineError::Syntax(_))), "{pipeline}");
        }
        let Err(PipelineError::Function { hint, .. }) = check("uper") else { panic!("unknown") };
        assert_eq!(hint.as_deref(), Some("did you mean `upper`?"));
    }
}
