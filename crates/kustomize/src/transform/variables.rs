//! `vars`: `$(NAME)` in the fields the configuration lists becomes the value of some object's field.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use slipway_problem::{Problem, Problems};

use crate::fieldspec::{FieldSpec, LeafKind};
use crate::growth::{GrowthBudget, GrowthError};
use crate::id::ResourceId;
use crate::kustomization::VariableEntry;
use crate::resource::{Resource, scalar_text};
use crate::transform::lookup::{self, PathStep};
use crate::transform::report_path;
use crate::written::{go_float, read_unquoted};

/// Finds the objects variables are about, while they still have the names the kustomization knows.
pub(crate) fn bind_variables(
    resources: &mut [Resource],
    variables: &[VariableEntry],
    problems: &mut Problems,
) {
    for variable in variables {
        let wanted = &variable.object;
        // A namespace is compared even with objects that can be in none.
        let is_there =
            |id: &ResourceId| wanted.namespace.is_empty() || id.effective_namespace() == wanted.namespace;
        let is_wanted = |resource: &&mut Resource| {
            resource.ids().any(|id| id.gvk == wanted.gvk && id.name == wanted.name && is_there(&id))
        };
        let mut matching: Vec<&mut Resource> = resources.iter_mut().filter(is_wanted).collect();
        match matching.as_mut_slice() {
            [] => {}
            [one] => one.variables.push(variable.name.clone()),
            several => problems.push(
                Problem::error(format!(
                    "{} objects could be the `{wanted}` variable `{}` reads",
                    several.len(),
                    variable.name
                ))
                .at(variable.at.clone())
                .hint("say which is meant with `objref.namespace`"),
            ),
        }
    }
}

/// A value that `$(NAME)` stands for.
enum VariableValue {
    Plain(Value),
    /// A mapping or list, which no text has room for.
    Container,
}

/// Replaces every variable, once all names are final.
pub(crate) fn resolve_variables(
    resources: &mut [Resource],
    variables: &[VariableEntry],
    fields: &[FieldSpec],
    problems: &mut Problems,
) {
    let mut values: BTreeMap<&str, VariableValue> = BTreeMap::new();
    for variable in variables {
        match value_of(resources, variable) {
            Ok(value) => drop(values.insert(&variable.name, value)),
            Err(problem) => problems.push(*problem),
        }
    }
    if values.len() < variables.len() || values.is_empty() {
        return;
    }
    let budget = &mut GrowthBudget::of(resources.iter());
    let mut used = BTreeSet::new();
    for resource in resources {
        let gvk = resource.gvk();
        for field in fields.iter().filter(|field| field.applies_to(&gvk)) {
            let mut wrong = false;
            let mut expansion = Expansion { values: &values, used: &mut used, budget: &mut *budget };
            let mut too_large = None;
            let untagged = resource.untagged.clone();
            let result = resource.change_shared(|resource| {
                field.visit_values(resource, LeafKind::Scalar, &mut |value| match replace_in(
                    value,
                    &untagged,
                    &mut expansion,
                ) {
                    Ok(()) => {}
                    Err(ExpandError::NotText) => wrong = true,
                    Err(ExpandError::Growth(error)) => too_large = Some(error),
                })
            });
            if let Some(error) = too_large {
                let message = format!("`{}`: `{}`: {error}", resource.current_id(), field.path.join("."));
                problems.push(Problem::error(message).at(resource.at.clone()));
                return;
            }
            if let Err(error) = result {
                let at = resource.at.clone();
                report_path(problems, resource, &at, &error);
            }
            if wrong {
                problems.push(
                    Problem::error(format!(
                        "`{}`: an element of `{}` is no string, and variables are looked for there",
                        resource.current_id(),
                        field.path.join(".")
                    ))
                    .at(resource.at.clone())
                    .hint("write it in quotes"),
                );
            }
        }
    }
    for variable in variables.iter().filter(|variable| !used.contains(variable.name.as_str())) {
        let problem = match values.get(variable.name.as_str()) {
            Some(VariableValue::Container) => Problem::warning(format!(
                "variable `{}` is a mapping or list, so `$({})` stays as it is",
                variable.name, variable.name
            )),
            _ => Problem::warning(format!("`$({})` is written nowhere", variable.name)),
        };
        problems.push(problem.at(variable.at.clone()));
    }
}

fn value_of(resources: &[Resource], variable: &VariableEntry) -> Result<VariableValue, Box<Problem>> {
    let Some(found) = resources.iter().find(|found| found.variables.contains(&variable.name)) else {
        let wanted = &variable.object;
        let problem = Problem::error(format!("there is no `{wanted}` for variable `{}`", variable.name))
            .at(variable.at.clone());
        let like = |found: &&Resource| {
            found.kind() == wanted.gvk.kind && found.ids().any(|id| id.name == wanted.name)
        };
        let names: Vec<&str> =
            resources.iter().filter(|found| found.kind() == wanted.gvk.kind).map(Resource::name).collect();
        return Err(Box::new(match resources.iter().find(like) {
            Some(other) => problem.hint(format!(
                "there is `{}`; `objref` gives its `apiVersion` and namespace exactly",
                other.current_id()
            )),
            None => problem.did_you_mean(&wanted.name, names),
        }));
    };
    let path = lookup::read_dotted(&variable.field_path);
    let value = path.and_then(|path| lookup::find_value(&found.value, &path).map(|value| (value, path)));
    match value {
        Ok((Value::Object(_) | Value::Array(_), _)) => Ok(VariableValue::Container),
        Ok((value, path)) => Ok(VariableValue::Plain(plain_value(found, value, path.last()))),
        Err(error) => Err(Box::new(
            Problem::error(format!(
                "`{}` has no `{}` for variable `{}`: {error}",
                found.current_id(),
                variable.field_path,
                variable.name
            ))
            .at(variable.at.clone()),
        )),
    }
}

/// A value as kustomize's node model gives it.
fn plain_value(resource: &Resource, value: &Value, last: Option<&PathStep>) -> Value {
    match (value, &resource.document, last) {
        // Nothing is the text it is written as.
        (Value::Null, Some(document), Some(PathStep::Field(key))) => {
            Value::String(document.text_of(key, value).unwrap_or("null").to_owned())
        }
        (Value::Null, ..) => Value::String("null".to_owned()),
        // A JSON patch made a float of every number.
        (Value::Number(number), None, _) => number.as_f64().map_or_else(|| value.clone(), Value::from),
        _ => value.clone(),
    }
}

/// A field whose variables cannot be replaced.
#[derive(Debug)]
enum ExpandError {
    /// An element of a list is no string.
    NotText,
    Growth(GrowthError),
}

/// The values to put in, and what was put in so far.
struct Expansion<'a> {
    values: &'a BTreeMap<&'a str, VariableValue>,
    used: &'a mut BTreeSet<String>,
    budget: &'a mut GrowthBudget,
}

fn replace_in(
    value: &mut Value,
    untagged: &[(String, String)],
    expansion: &mut Expansion<'_>,
) -> Result<(), ExpandError> {
    match value {
        Value::String(text) => {
            let replaced = expansion.expand_text(text).map_err(ExpandError::Growth)?;
            *value = replaced;
            Ok(())
        }
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                let made =
                    untagged.iter().rev().find(|(field, text)| field == key && read_unquoted(text) == *value);
                if let Some((_, text)) = made {
                    *value = Value::String(text.clone());
                }
                if value.is_string() {
                    replace_in(value, untagged, expansion)?;
                }
            }
            Ok(())
        }
        Value::Array(list) => list.iter_mut().try_for_each(|element| match element {
            Value::String(_) => replace_in(element, untagged, expansion),
            _ => Err(ExpandError::NotText),
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

impl Expansion<'_> {
    /// Replaces `$(NAME)` in a text; `$$` is a dollar sign. A text that is one variable and nothing else becomes
    /// what the variable is, be it a number.
    fn expand_text(&mut self, text: &str) -> Result<Value, GrowthError> {
        if !text.contains('$') {
            return Ok(Value::String(text.to_owned()));
        }
        let bytes = text.as_bytes();
        let mut out: Vec<u8> = Vec::with_capacity(text.len());
        let mut at = 0;
        while at < bytes.len() {
            let next = bytes.get(at + 1).copied();
            match (bytes[at], next) {
                (b'$', Some(b'$')) => {
                    out.push(b'$');
                    at += 2;
                }
                (b'$', Some(b'(')) => match bytes[at + 2..].iter().position(|byte| *byte == b')') {
                    Some(length) => {
                        let name = &text[at + 2..at + 2 + length];
                        at += length + 3;
                        let value = match self.values.get(name) {
                            Some(VariableValue::Plain(value)) => {
                                self.used.insert(name.to_owned());
                                value
                            }
                            _ => {
                                out.extend_from_slice(format!("$({name})").as_bytes());
                                continue;
                            }
                        };
                        if text.len() == name.len() + 3 {
                            return Ok(whole_value(value));
                        }
                        let part = match value {
                            Value::Number(number) if number.is_f64() => number.as_f64().map(go_float),
                            value => scalar_text(value),
                        };
                        let part = part.unwrap_or_default();
                        self.budget.spend_bytes(part.len())?;
                        out.extend_from_slice(part.as_bytes());
                    }
                    None => {
                        out.extend_from_slice(b"$(");
                        at += 2;
                    }
                },
                (b'$', Some(other)) => {
                    // kustomize takes the byte for a letter.
                    out.push(b'$');
                    out.extend_from_slice(char::from(other).to_string().as_bytes());
                    at += 2;
                }
                (byte, _) => {
                    out.push(byte);
                    at += 1;
                }
            }
        }
        Ok(Value::String(String::from_utf8_lossy(&out).into_owned()))
    }
}

/// A value in the place of a whole text: a float without a fraction is written as an integer.
fn whole_value(value: &Value) -> Value {
    let integer = value
        .as_f64()
        .filter(|float| value.is_f64() && float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0);
    match integer {
        Some(float) => Value::from(float as i64),
        None => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn variables_are_replaced_in_texts() {
        let values: BTreeMap<&str, VariableValue> = BTreeMap::from([
            ("A", VariableValue::Plain(json!("x"))),
            ("N", VariableValue::Plain(json!(80))),
            ("F", VariableValue::Plain(json!(1e6))),
            ("M", VariableValue::Container),
        ]);
        for (text, expected) in [
            ("plain", json!("plain")),
            ("$(A)-$(N)", json!("x-80")),
            ("$(N)", json!(80)),
            ("$(F)", json!(1_000_000)),
            ("$(F)s", json!("1e+06s")),
            ("$$(A)", json!("$(A)")),
            ("$(B) $(M) $( $", json!("$(B) $(M) $( $")),
            ("$x$", json!("$x$")),
        ] {
            let mut expansion = Expansion {
                values: &values,
                used: &mut BTreeSet::new(),
                budget: &mut GrowthBudget::of(std::iter::empty()),
            };
            assert_eq!(expansion.expand_text(text), Ok(expected), "{text}");
        }
    }
}
