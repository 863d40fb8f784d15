//! The condition of a step: compiled and decided while the document is read.

use std::sync::LazyLock;

use serde_json::{Map, Value as Json};
use slipway_cel::{Bindings, CelErrorKind, Env, EvalError, Overload, Type, Value};
use slipway_event::MASK;
use slipway_problem::Problem;

use super::block::Block;
use crate::model::When;
use crate::variables::Variables;

/// `vars` and what can be asked of it.
static ENVIRONMENT: LazyLock<Env> =
    LazyLock::new(|| {
        let vars = || Type::map(Type::String, Type::String);
        let get =
            Overload::method("get", vec![vars(), Type::String, Type::String], Type::String, |_, args| {
                match args {
                    [Value::Map(map), Value::String(name), default] => {
                        Ok(map.field(name).unwrap_or_else(|| default.clone()))
                    }
                    _ => Err(EvalError::no_overload()),
                }
            });
        Env::new().variable("vars", vars()).function(get)
    });

/// Reads `when` and says whether it holds. Nothing is decided about an expression with mistakes.
pub(super) fn read(block: &Block<'_, '_>, variables: &Variables) -> Option<When> {
    let (node, text) = block.filled("when")?;
    let source = block.findings.text();
    let written = source.origin(node.span.start).offset..source.origin(node.span.end).offset;
    if source.references.iter().any(|reference| written.contains(&reference.span.start)) {
        let problem = Problem::warning("a reference inside `when` becomes part of the expression");
        block.report(node, "when", "W005", problem.hint("write `vars.NAME` instead of `${NAME}`"));
    }
    let report = |code: &str, message: String, hint: Option<String>| {
        let mut problem = Problem::error(format!("when: {message}"));
        problem.hint = hint;
        block.report(node, "when", code, problem);
    };
    let program = match ENVIRONMENT.compile_as(text, &Type::Bool) {
        Ok(program) => program,
        Err(errors) => {
            for error in errors {
                let code = match error.kind {
                    CelErrorKind::Syntax | CelErrorKind::Limit => "E061",
                    CelErrorKind::ResultType => "E063",
                    _ => "E062",
                };
                report(
                    code,
                    format!("{} (column {} of the expression)", error.message, error.column),
                    error.hint,
                );
            }
            return None;
        }
    };
    let values: Map<String, Json> = variables
        .iter()
        .map(|(name, variable)| (name.to_owned(), Json::String(variable.value.clone())))
        .collect();
    let values = Json::Object(values);
    match program.eval_bool(&Bindings::new().json("vars", &values)) {
        Ok(holds) => Some(When { expression: source.masked(text, node.span.start..node.span.end), holds }),
        Err(error) => {
            // What a conversion could not read may be a secret variable.
            let mut message = error.to_string();
            for secret in variables.secrets().filter(|secret| !secret.is_empty()) {
                message = message.replace(secret, MASK);
            }
            report("E064", message, error.hint());
            None
        }
    }
}
