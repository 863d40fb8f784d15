//! Evaluates the expressions of a policy over a write.

use serde_json::{Map, Value};
use slipway_cel::{Bindings, Env, EvalError, Overload, Type};

use crate::api::crd::rules::compilation_message;
use crate::auth::rbac::AccessRules;
use crate::core::Core;

use super::authorizer::{AUTHORIZER, REQUEST_RESOURCE, authorizer_values, declare_authorizer};
use super::{WriteAttempt, namespace_of};
use slipway_go::GoError;

/// Returns the environment of expressions in policies and webhooks, with these variables.
pub(crate) fn policy_environment(variables: &[&str]) -> Env {
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
    variables.iter().fold(env, |env, name| match *name {
        AUTHORIZER => declare_authorizer(env),
        name => env.variable(name, Type::Dyn),
    })
}

/// The types of the variables a policy declares.
#[derive(Default)]
pub(crate) struct PolicyVariables(Vec<(String, Type)>);

impl PolicyVariables {
    /// Adds a variable by the type of its expression.
    pub(crate) fn add(&mut self, env: &Env, variable: &Value) {
        let ty = env.compile(text_member(variable, "expression")).map(|program| program.ty().clone());
        self.0.push((text_member(variable, "name").to_owned(), ty.unwrap_or(Type::Dyn)));
    }

    pub(crate) fn declare_in(&self, env: Env) -> Env {
        let fields = self.0.iter().map(|(name, ty)| (name.as_str(), ty.clone()));
        env.variable("variables", Type::object("variables", fields))
    }
}

/// Declares the variables of a policy, each of which may use those before it.
pub(crate) fn declare_variables(env: Env, policy: &Value) -> Env {
    let mut variables = PolicyVariables::default();
    for variable in list_member(policy, "variables") {
        variables.add(&variables.declare_in(env.clone()), variable);
    }
    variables.declare_in(env)
}

/// The variables expressions of one policy see.
pub(super) struct PolicyEvaluation<'a> {
    env: Env,
    object: &'a Value,
    old: &'a Value,
    params: &'a Value,
    request: Value,
    namespace: Value,
    variables: Value,
    /// `authorizer` and its `requestResource`.
    authorizer: [slipway_cel::Value<'static>; 2],
}

/// The reason a policy is not evaluated on a write.
pub(super) enum PolicySkipped {
    /// A condition is not met.
    Unmatched,
    /// A condition cannot be evaluated.
    Broken(String),
}

impl<'a> PolicyEvaluation<'a> {
    pub(super) fn new(core: &Core, attempt: &WriteAttempt<'a>, params: &'a Value) -> PolicyEvaluation<'a> {
        let env = policy_environment(&[
            "object",
            "oldObject",
            "request",
            "params",
            "namespaceObject",
            "variables",
            AUTHORIZER,
        ]);
        PolicyEvaluation {
            env,
            object: attempt.new.unwrap_or(&Value::Null),
            old: attempt.old.unwrap_or(&Value::Null),
            params,
            request: attempt.request_value(),
            namespace: namespace_of(core, attempt),
            variables: Value::Object(Map::new()),
            authorizer: authorizer_values(AccessRules::of(core), attempt),
        }
    }

    /// The same with another object, as an earlier mutation left it.
    pub(super) fn with_object(&self, object: &'a Value) -> PolicyEvaluation<'a> {
        PolicyEvaluation {
            env: self.env.clone(),
            object,
            request: self.request.clone(),
            namespace: self.namespace.clone(),
            variables: self.variables.clone(),
            authorizer: self.authorizer.clone(),
            ..*self
        }
    }

    /// Checks the policy's conditions, and computes its variables.
    pub(super) fn prepare_variables(&mut self, policy: &Value) -> Result<(), PolicySkipped> {
        for condition in list_member(policy, "matchConditions") {
            let expression = text_member(condition, "expression");
            match self.evaluate_value(expression, Some(&Type::Bool)) {
                Ok(Value::Bool(true)) => {}
                Ok(_) => return Err(PolicySkipped::Unmatched),
                Err(error) => {
                    let why = format!("expression '{expression}' resulted in error: {error}");
                    return Err(PolicySkipped::Broken(why));
                }
            }
        }
        for variable in list_member(policy, "variables") {
            // A variable that cannot be computed is an error only where it is used.
            if let Ok(value) = self.evaluate_value(text_member(variable, "expression"), None) {
                self.variables[text_member(variable, "name")] = value;
            }
        }
        Ok(())
    }

    /// The value of an expression, as JSON.
    pub(super) fn evaluate_value(&self, expression: &str, ty: Option<&Type>) -> Result<Value, GoError> {
        let program = match ty {
            Some(ty) => self.env.compile_as(expression, ty),
            None => self.env.compile(expression),
        }
        .map_err(|errors| compilation_message(&errors, expression))?;
        let [authorizer, request_resource] = self.authorizer.clone();
        let bindings = Bindings::new()
            .value(AUTHORIZER, authorizer)
            .value(REQUEST_RESOURCE, request_resource)
            .json("object", self.object)
            .json("oldObject", self.old)
            .json("request", &self.request)
            .json("params", self.params)
            .json("namespaceObject", &self.namespace)
            .json("variables", &self.variables);
        let value = program.eval(&bindings).map_err(|error| error.message.to_string())?;
        value.to_json().ok_or_else(|| GoError::new("the value has no JSON form"))
    }
}

pub(super) fn list_member<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key].as_array().map_or(&[][..], Vec::as_slice)
}

pub(super) fn text_member<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or("")
}
