//! `x-kubernetes-validations`: compiled when a definition is served, run when its objects are written.

use std::collections::HashMap;

use serde_json::Value;
use slipway_cel::{
    Bindings, CelError, CelErrorKind, Env, EvalErrorKind, Limits, Program, Type, Value as Cel,
};
use slipway_manifest::crd::{RuleChecker, RuleFailure, ValidationRule};

use crate::status::StatusCause;
use slipway_go::GoError;

/// The steps the evaluation of one rule may take.
const MOST_STEPS: u64 = 1_000_000;

/// Schemas nested deeper were refused with their definition.
const DEEPEST: usize = 128;

/// The compiled rules of one version of a definition, by their text.
#[derive(Debug, Default)]
pub(crate) struct SchemaRules(HashMap<(String, bool), CompiledRule>);

#[derive(Debug)]
struct CompiledRule {
    ty: Type,
    rule: Option<Program>,
    message: HashMap<String, Program>,
}

impl SchemaRules {
    /// Compiles every rule of a schema. What does not compile was refused with its definition.
    pub(crate) fn compile_schema(schema: &Value) -> SchemaRules {
        let mut rules = SchemaRules::default();
        visit_nodes(schema, &mut String::new(), 0, &mut |node, depth, _| {
            let ty = type_of(node, depth);
            for rule in node["x-kubernetes-validations"].as_array().into_iter().flatten() {
                rules.compile_rule(rule, &ty);
            }
        });
        rules
    }

    fn compile_rule(&mut self, rule: &Value, ty: &Type) {
        let text = rule["rule"].as_str().unwrap_or("").to_owned();
        let optional = rule["optionalOldSelf"] == true;
        let known = self.0.entry((text.clone(), optional)).or_insert_with(|| CompiledRule {
            ty: ty.clone(),
            rule: rule_environment(ty, optional).compile_as(&text, &Type::Bool).ok(),
            message: HashMap::new(),
        });
        // The same rule text about values of different types: the type is known only with the value.
        if known.ty != *ty && known.ty != Type::Dyn {
            known.ty = Type::Dyn;
            known.rule = rule_environment(&Type::Dyn, optional).compile_as(&text, &Type::Bool).ok();
            known.message.clear();
        }
        if let Some(message) = rule["messageExpression"].as_str().filter(|m| !m.is_empty())
            && let Ok(program) = rule_environment(&known.ty, optional).compile_as(message, &Type::String)
        {
            known.message.insert(message.to_owned(), program);
        }
    }
}

impl RuleChecker for SchemaRules {
    fn check_rule(
        &self,
        rule: &ValidationRule,
        value: &Value,
        old: Option<&Value>,
    ) -> Result<(), RuleFailure> {
        let Some(compiled) = self.0.get(&(rule.rule.clone(), rule.optional_old_self)) else { return Ok(()) };
        let Some(program) = &compiled.rule else { return Ok(()) };
        let transition = program.references().iter().any(|r| r.variable == "oldSelf");
        if transition && old.is_none() && !rule.optional_old_self {
            return Ok(());
        }
        // Values that passed before and did not change are let through.
        if !transition && old == Some(value) {
            return Ok(());
        }
        let mut bindings = Bindings::new().json("self", value);
        bindings = match (old, rule.optional_old_self) {
            (Some(old), true) => bindings.value("oldSelf", Cel::some(Cel::from_json(old))),
            (None, true) => bindings.value("oldSelf", Cel::Optional(None)),
            (Some(old), false) => bindings.json("oldSelf", old),
            (None, false) => bindings,
        };
        match program.eval_bool(&bindings) {
            Ok(true) => Ok(()),
            Ok(false) => {
                let said =
                    compiled.message.get(&rule.message_expression).and_then(|m| m.eval(&bindings).ok());
                let said = said.and_then(|m| m.as_str().map(|m| m.trim().to_owned()));
                Err(RuleFailure { message: said.filter(|m| !m.is_empty() && !m.contains('\n')) })
            }
            Err(error) => {
                let rule = if rule.message.is_empty() { &rule.rule } else { &rule.message }.trim();
                if error.kind == EvalErrorKind::CostLimit {
                    return Err(RuleFailure {
                        message: Some(format!("call cost exceeds limit for rule: {rule}")),
                    });
                }
                Err(RuleFailure { message: Some(format!("{} evaluating rule: {rule}", error.message)) })
            }
        }
    }
}

fn rule_environment(ty: &Type, optional: bool) -> Env {
    let old = if optional { Type::optional(ty.clone()) } else { ty.clone() };
    let limits = Limits { cost: MOST_STEPS, ..Limits::default() };
    Env::kubernetes().limits(limits).variable("self", ty.clone()).variable("oldSelf", old)
}

fn type_of(node: &Value, depth: usize) -> Type {
    if depth == 0 { Type::from_resource_schema(node) } else { Type::from_json_schema(node) }
}

/// Calls `f` with every node of a schema, how deep it is and its path.
fn visit_nodes(node: &Value, path: &mut String, depth: usize, f: &mut dyn FnMut(&Value, usize, &str)) {
    if depth > DEEPEST {
        return;
    }
    f(node, depth, path);
    let length = path.len();
    for (name, property) in node["properties"].as_object().into_iter().flatten() {
        path.push_str(&format!(".properties[{name}]"));
        visit_nodes(property, path, depth + 1, f);
        path.truncate(length);
    }
    for member in ["items", "additionalProperties"] {
        if let Some(inner) = node.get(member).filter(|inner| inner.is_object()) {
            path.push('.');
            path.push_str(member);
            visit_nodes(inner, path, depth + 1, f);
            path.truncate(length);
        }
    }
}

/// Finds the rules of a definition that do not compile.
pub(crate) fn check_definition(definition: &Value, out: &mut Vec<StatusCause>) {
    let versions = definition["spec"]["versions"].as_array().map_or(&[][..], Vec::as_slice);
    for (index, version) in versions.iter().enumerate() {
        let schema = &version["schema"]["openAPIV3Schema"];
        let mut path = if versions.len() == 1 {
            "spec.validation.openAPIV3Schema".to_owned()
        } else {
            format!("spec.versions[{index}].schema.openAPIV3Schema")
        };
        visit_nodes(schema, &mut path, 0, &mut |node, depth, path| {
            let Some(rules) = node["x-kubernetes-validations"].as_array() else { return };
            let ty = type_of(node, depth);
            for (index, rule) in rules.iter().enumerate() {
                let env = rule_environment(&ty, rule["optionalOldSelf"] == true);
                if rule["optionalOldSelf"].is_boolean()
                    && !mentions_name(rule["rule"].as_str().unwrap_or(""), "oldSelf")
                {
                    let field = format!("{path}.x-kubernetes-validations[{index}].optionalOldSelf");
                    let why = "may not be set if oldSelf is not used in rule";
                    out.push(StatusCause::invalid(field, &rule["optionalOldSelf"], why));
                }
                for (member, wanted) in [("rule", Type::Bool), ("messageExpression", Type::String)] {
                    let Some(text) = rule[member].as_str().filter(|text| !text.is_empty()) else { continue };
                    if let Err(errors) = env.compile_as(text, &wanted) {
                        let field = format!("{path}.x-kubernetes-validations[{index}].{member}");
                        let is_result = errors.iter().any(|error| error.kind == CelErrorKind::ResultType);
                        let why = match (is_result, member) {
                            (true, "rule") => "cel expression must evaluate to a bool".to_owned(),
                            (true, _) => "messageExpression must evaluate to a string".to_owned(),
                            (false, "rule") => compilation_message(&errors, text),
                            (false, _) => format!("messageExpression {}", compilation_message(&errors, text)),
                        };
                        out.push(StatusCause::invalid(field, &go_internal_rule(rule), &why));
                    }
                }
            }
        });
    }
}

/// Returns true if an expression mentions this name.
fn mentions_name(expression: &str, name: &str) -> bool {
    expression.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name)
}

/// A rule as Go prints its internal type.
fn go_internal_rule(rule: &Value) -> Value {
    let text = |key: &str| rule[key].as_str().unwrap_or("");
    serde_json::json!({
        "Rule": text("rule"), "Message": text("message"), "MessageExpression": text("messageExpression"),
        "Reason": rule["reason"], "FieldPath": text("fieldPath"), "OptionalOldSelf": rule["optionalOldSelf"],
    })
}

/// `compilation failed: ERROR: <input>:1:5: …`
pub(crate) fn compilation_message(errors: &[CelError], text: &str) -> String {
    let errors: Vec<String> = errors.iter().map(|error| error.render(text)).collect();
    format!("compilation failed: {}", errors.join("\n"))
}

/// Compiles an expression that must have a type; the error is a real server's.
pub(crate) fn check_compiles(env: &Env, text: &str, ty: Option<&Type>) -> Result<(), GoError> {
    let Err(errors) = ty.map_or_else(|| env.compile(text), |ty| env.compile_as(text, ty)) else {
        return Ok(());
    };
    match (errors.as_slice(), ty) {
        ([error], Some(ty)) if error.kind == CelErrorKind::ResultType => {
            let found = error.message.rsplit('\'').nth(1).unwrap_or("");
            Err(format!("must evaluate to {ty} but got {found}").into())
        }
        _ => Err(compilation_message(&errors, text).into()),
    }
}
