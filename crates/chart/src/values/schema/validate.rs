//! Walking values and schema together, drafts 4 to 7, in the order and words of Helm's validator.

mod scalars;

use std::rc::Rc;

use serde_json::{Map, Value};
use slipway_go::regexp::Regexp;

use super::compile::SchemaDocument;
use super::get;
use scalars::{check_common, check_number, check_string, is_equal, type_of, wrong_type};
use slipway_go::GoError;

/// One violation of the schema.
#[derive(Clone, Debug)]
pub(super) struct SchemaFinding {
    /// `(root)` or the dotted path.
    pub(super) field: String,
    pub(super) text: String,
}

/// References and combinations inside one another stop here.
const DEEPEST: usize = 256;
/// The limit of checks, because a schema can make the work grow exponentially.
const MOST_STEPS: u64 = 5_000_000;

pub(super) fn validate_values(
    document: &SchemaDocument,
    values: &Value,
) -> Result<Vec<SchemaFinding>, GoError> {
    let mut walk = Walk { document, steps: 0, broken: None };
    let mut outcome = Outcome::default();
    walk.check_schema(document.root(), values, &Path::Root, 0, &mut outcome);
    match walk.broken {
        Some(error) => Err(error),
        None => Ok(outcome.findings),
    }
}

enum Path<'p> {
    Root,
    Child(&'p Path<'p>, &'p str),
    Item(&'p Path<'p>, usize),
}

impl std::fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Root => f.write_str("(root)"),
            Self::Child(Self::Root, name) => f.write_str(name),
            Self::Child(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(Self::Root, index) => write!(f, "{index}"),
            Self::Item(parent, index) => write!(f, "{parent}.{index}"),
        }
    }
}

#[derive(Default)]
struct Outcome {
    findings: Vec<SchemaFinding>,
    /// The number of checks that passed: it selects the failing branch that came closest.
    score: i64,
}

impl Outcome {
    fn add_finding(&mut self, path: &Path<'_>, text: impl Into<String>) {
        self.findings.push(SchemaFinding { field: path.to_string(), text: text.into() });
        self.score -= 1;
    }

    fn is_valid(&self) -> bool {
        self.findings.is_empty()
    }

    fn merge_findings(&mut self, other: Outcome) {
        self.findings.extend(other.findings);
        self.score += other.score;
    }
}

struct Walk<'d> {
    document: &'d SchemaDocument,
    steps: u64,
    broken: Option<GoError>,
}

impl<'d> Walk<'d> {
    fn try_schema(&mut self, schema: &'d Value, value: &Value, path: &Path<'_>, depth: usize) -> Outcome {
        let mut outcome = Outcome::default();
        self.check_schema(schema, value, path, depth + 1, &mut outcome);
        outcome
    }

    fn check_schema(
        &mut self,
        schema: &'d Value,
        value: &Value,
        path: &Path<'_>,
        depth: usize,
        out: &mut Outcome,
    ) {
        self.steps += 1;
        if depth > DEEPEST || self.steps > MOST_STEPS {
            self.broken.get_or_insert_with(|| "the schema refers to itself without end".into());
        }
        if self.broken.is_some() {
            return;
        }
        let map = match schema {
            Value::Bool(true) => return,
            Value::Bool(false) => return out.add_finding(path, "False always fails validation"),
            Value::Object(map) => map,
            _ => return,
        };
        if let Some(Value::String(reference)) = get(map, "$ref") {
            match self.document.resolve_reference(reference) {
                Ok(target) => self.check_schema(target, value, path, depth + 1, out),
                Err(error) => self.broken = Some(error),
            }
            return;
        }
        if let Some(expected) = wrong_type(map, value) {
            return out
                .add_finding(path, format!("Invalid type. Expected: {expected}, given: {}", type_of(value)));
        }
        self.check_combinations(map, value, path, depth, out);
        match value {
            Value::Object(entries) => {
                check_common(map, value, path, out);
                self.check_object(map, entries, path, depth, out);
            }
            Value::Array(items) => {
                self.check_array(map, items, path, depth, out);
                check_common(map, value, path, out);
            }
            Value::Number(number) => {
                check_number(map, number, path, out);
                check_common(map, value, path, out);
            }
            Value::String(text) => {
                check_common(map, value, path, out);
                check_string(map, text, path, out);
            }
            Value::Null | Value::Bool(_) => check_common(map, value, path, out),
        }
        out.score += 1;
    }

    fn check_combinations(
        &mut self,
        map: &'d Map<String, Value>,
        value: &Value,
        path: &Path<'_>,
        depth: usize,
        out: &mut Outcome,
    ) {
        if let Some(Value::Array(branches)) = get(map, "anyOf")
            && !branches.is_empty()
        {
            let mut best: Option<Outcome> = None;
            let mut valid = false;
            for branch in branches {
                let tried = self.try_schema(branch, value, path, depth);
                if tried.is_valid() {
                    valid = true;
                    break;
                }
                if best.as_ref().is_none_or(|best| tried.score > best.score) {
                    best = Some(tried);
                }
            }
            if !valid {
                out.add_finding(path, "Must validate at least one schema (anyOf)");
                out.merge_findings(best.unwrap_or_default());
            }
        }
        if let Some(Value::Array(branches)) = get(map, "oneOf")
            && !branches.is_empty()
        {
            let mut best: Option<Outcome> = None;
            let mut valid = 0;
            for branch in branches {
                let tried = self.try_schema(branch, value, path, depth);
                if tried.is_valid() {
                    valid += 1;
                } else if valid == 0 && best.as_ref().is_none_or(|best| tried.score > best.score) {
                    best = Some(tried);
                }
            }
            if valid != 1 {
                out.add_finding(path, "Must validate one and only one schema (oneOf)");
                if valid == 0 {
                    out.merge_findings(best.unwrap_or_default());
                }
            }
        }
        if let Some(Value::Array(branches)) = get(map, "allOf")
            && !branches.is_empty()
        {
            let mut valid = true;
            for branch in branches {
                let tried = self.try_schema(branch, value, path, depth);
                valid &= tried.is_valid();
                out.merge_findings(tried);
            }
            if !valid {
                out.add_finding(path, "Must validate all the schemas (allOf)");
            }
        }
        if let Some(schema) = get(map, "not")
            && self.try_schema(schema, value, path, depth).is_valid()
        {
            out.add_finding(path, "Must not validate the schema (not)");
        }
        if let (Some(Value::Object(dependencies)), Value::Object(entries)) = (get(map, "dependencies"), value)
        {
            for (key, dependency) in sorted_entries(dependencies) {
                if !entries.contains_key(key) {
                    continue;
                }
                match dependency {
                    Value::Array(needed) => {
                        for needed in needed.iter().filter_map(Value::as_str) {
                            if !entries.contains_key(needed) {
                                out.add_finding(path, format!("Has a dependency on {needed}"));
                            }
                        }
                    }
                    schema => self.check_schema(schema, value, path, depth + 1, out),
                }
            }
        }
        if let Some(condition) = get(map, "if") {
            let (key, word) = if self.try_schema(condition, value, path, depth).is_valid() {
                ("then", "valid")
            } else {
                ("else", "not valid")
            };
            if let Some(branch) = get(map, key) {
                let tried = self.try_schema(branch, value, path, depth);
                if !tried.is_valid() {
                    out.add_finding(path, format!("Must validate \"{key}\" as \"if\" was {word}"));
                    out.merge_findings(tried);
                }
            }
        }
    }

    fn check_array(
        &mut self,
        map: &'d Map<String, Value>,
        items: &[Value],
        path: &Path<'_>,
        depth: usize,
        out: &mut Outcome,
    ) {
        match get(map, "items") {
            Some(Value::Array(schemas)) => {
                for (index, (schema, item)) in schemas.iter().zip(items).enumerate() {
                    let tried = self.try_schema(schema, item, &Path::Item(path, index), depth);
                    out.merge_findings(tried);
                }
                match get(map, "additionalItems") {
                    Some(Value::Bool(false)) if items.len() > schemas.len() => {
                        out.add_finding(path, "No additional items allowed on array");
                    }
                    Some(schema @ Value::Object(_)) => {
                        for (index, item) in items.iter().enumerate().skip(schemas.len()) {
                            let tried = self.try_schema(schema, item, &Path::Item(path, index), depth);
                            out.merge_findings(tried);
                        }
                    }
                    _ => {}
                }
            }
            Some(schema) => {
                for (index, item) in items.iter().enumerate() {
                    let tried = self.try_schema(schema, item, &Path::Item(path, index), depth);
                    out.merge_findings(tried);
                }
            }
            None => {}
        }
        let bound = |key: &str| get(map, key).and_then(Value::as_f64);
        if let Some(least) = bound("minItems").filter(|least| (items.len() as f64) < *least) {
            out.add_finding(path, format!("Array must have at least {least} items"));
        }
        if let Some(most) = bound("maxItems").filter(|most| (items.len() as f64) > *most) {
            out.add_finding(path, format!("Array must have at most {most} items"));
        }
        if get(map, "uniqueItems") == Some(&Value::Bool(true)) {
            for (second, item) in items.iter().enumerate() {
                if let Some(first) = items[..second].iter().position(|other| is_equal(other, item)) {
                    out.add_finding(path, format!("array items[{first},{second}] must be unique"));
                }
            }
        }
        if let Some(schema) = get(map, "contains") {
            let mut best: Option<Outcome> = None;
            let mut valid = false;
            for (index, item) in items.iter().enumerate() {
                let tried = self.try_schema(schema, item, &Path::Item(path, index), depth);
                if tried.is_valid() {
                    valid = true;
                    break;
                }
                if best.as_ref().is_none_or(|best| tried.score > best.score) {
                    best = Some(tried);
                }
            }
            if !valid {
                out.add_finding(path, "At least one of the items must match");
                out.merge_findings(best.unwrap_or_default());
            }
        }
        out.score += 1;
    }

    fn check_object(
        &mut self,
        map: &'d Map<String, Value>,
        entries: &Map<String, Value>,
        path: &Path<'_>,
        depth: usize,
        out: &mut Outcome,
    ) {
        let bound = |key: &str| get(map, key).and_then(Value::as_f64);
        if let Some(least) = bound("minProperties").filter(|least| (entries.len() as f64) < *least) {
            out.add_finding(path, format!("Must have at least {least} properties"));
        }
        if let Some(most) = bound("maxProperties").filter(|most| (entries.len() as f64) > *most) {
            out.add_finding(path, format!("Must have at most {most} properties"));
        }
        if let Some(Value::Array(required)) = get(map, "required") {
            for name in required.iter().filter_map(Value::as_str) {
                if entries.contains_key(name) {
                    out.score += 1;
                } else {
                    out.add_finding(path, format!("{name} is required"));
                }
            }
        }
        let properties = get(map, "properties").and_then(Value::as_object);
        let patterns: Vec<(Rc<Regexp>, &'d Value)> = map
            .get("patternProperties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .filter_map(|(pattern, schema)| Some((Regexp::compile(pattern.as_bytes()).ok()?, schema)))
            .collect();
        let additional = get(map, "additionalProperties");
        if additional.is_some() || !patterns.is_empty() {
            for (key, value) in sorted_entries(entries) {
                let mut described = properties.is_some_and(|properties| properties.contains_key(key));
                for (pattern, schema) in &patterns {
                    if pattern.is_match(key.as_bytes()) {
                        described = true;
                        let tried = self.try_schema(schema, value, &Path::Child(path, key), depth);
                        out.merge_findings(tried);
                    }
                }
                match additional {
                    Some(Value::Bool(false)) if !described => {
                        out.add_finding(path, format!("Additional property {key} is not allowed"));
                    }
                    Some(schema @ Value::Object(_)) if !described => {
                        let tried = self.try_schema(schema, value, &Path::Child(path, key), depth);
                        out.merge_findings(tried);
                    }
                    _ => {}
                }
            }
        }
        if let Some(schema) = get(map, "propertyNames") {
            for (key, _) in sorted_entries(entries) {
                let tried = self.try_schema(schema, &Value::String(key.clone()), path, depth);
                if !tried.is_valid() {
                    out.add_finding(path, format!("Property name of \"{key}\" does not match"));
                    out.merge_findings(tried);
                }
            }
        }
        for (key, schema) in properties.map(sorted_entries).unwrap_or_default() {
            if let Some(value) = entries.get(key) {
                self.check_schema(schema, value, &Path::Child(path, key), depth + 1, out);
            }
        }
        out.score += 1;
    }
}

fn sorted_entries(map: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_by_key(|(key, _)| *key);
    entries
}
