//! Evaluates the expressions of a policy over a write.

use serde_json::{Map, Value};
use slipway_cel::{Bindings, Env, EvalError, Overload, Type};

use crate::api::crd::rules::failed;
use crate::core::Core;

use super::{Attempt, namespace_of};

/// What expressions of policies and webhooks may use, with these variables.
pub(crate) fn environment(variables: &[&str]) -> Env {
    let escape = Overload::function(
        "jsonpatch.escapeKey",
        vec![Type::String],
        Type::String,
        |meter, args| match args {
            [slipway_cel::Value::String(text)] => {
                meter.charge_bytes(text.len())?;
                Ok(slipway_cel::Value::string(text.to_string().replace('~', "~0").replace('/', "~1")))
            }
            _ => Err(EvalError::no_overload()),
        },
    );
    let env = Env::kubernetes().function(escape);
    variables.iter().fold(env, |env, name| env.variable(name, Type::Dyn))
}

/// The variables expressions of one policy see.
pub(super) struct Evaluation<'a> {
    env: Env,
    object: &'a Value,
    old: &'a Value,
    params: &'a Value,
    request: Value,
    namespace: Value,
    variables: Value,
}

/// Why a policy says nothing, or something else, about a write.
pub(super) enum Skipped {
    /// A condition is not met.
    Unmatched,
    /// A condition cannot be evaluated.
    Broken(String),
}

impl<'a> Evaluation<'a> {
    pub(super) fn new(core: &Core, attempt: &Attempt<'a>, params: &'a Value) -> Evaluation<'a> {
        let env = environment(&["object", "oldObject", "request", "params", "namespaceObject", "variables"]);
        Evaluation {
            env,
            object: attempt.new.unwrap_or(&Value::Null),
            old: attempt.old.unwrap_or(&Value::Null),
            params,
            request: attempt.request(),
            namespace: namespace_of(core, attempt),
            variables: Value::Object(Map::new()),
        }
    }

    /// The same with another object, as an earlier mutation left it.
    pub(super) fn with_object(&self, object: &'a Value) -> Evaluation<'a> {
        Evaluation {
            env: self.env.clone(),
            object,
            request: self.request.clone(),
            namespace: self.namespace.clone(),
            variables: self.variables.clone(),
            ..*self
        }
    }

    /// Checks the policy's conditions, and computes its variables.
    pub(super) fn prepare(&mut self, policy: &Value) -> Result<(), Skipped> {
        for condition in list(policy, "matchConditions") {
            let expression = text(condition, "expression");
            match self.value(expression, Some(&Type::Bool)) {
                Ok(Value::Bool(true)) => {}
                Ok(_) => return Err(Skipped::Unmatched),
                Err(error) => {
                    let why = format!("expression '{expression}' resulted in error: {error}");
                    return Err(Skipped::Broken(why));
                }
            }
        }
        for variable in list(policy, "variables") {
            // One that cannot be computed is missed only by those who use it.
            if let Ok(value) = self.value(text(variable, "expression"), None) {
                self.variables[text(variable, "name")] = value;
            }
        }
        Ok(())
    }

    /// The value of an expression, as JSON.
    pub(super) fn value(&self, expression: &str, ty: Option<&Type>) -> Result<Value, String> {
        let program = match ty {
            Some(ty) => self.env.compile_as(expression, ty),
            None => self.env.compile(expression),
        }
        .map_err(|errors| failed(&errors, expression))?;
        let bindings = Bindings::new()
            .json("object", self.object)
            .json("oldObject", self.old)
            .json("request", &self.request)
            .json("params", self.params)
            .json("namespaceObject", &self.namespace)
            .json("variables", &self.variables);
        let value = program.eval(&bindings).map_err(|error| error.message.to_string())?;
        value.to_json().ok_or_else(|| "the value has no JSON form".to_owned())
    }
}

pub(super) fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key].as_array().map_or(&[][..], Vec::as_slice)
}

pub(super) fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or("")
}
