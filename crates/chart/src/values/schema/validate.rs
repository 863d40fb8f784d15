//! Walking values and schema together, drafts 4 to 7, in the order and words of Helm's validator.

use std::rc::Rc;

use serde_json::{Map, Number, Value};
use slipway_go::regexp::Regexp;

use super::compile::SchemaDocument;
use super::{format, get};

/// One complaint.
#[derive(Clone, Debug)]
pub(super) struct SchemaFinding {
    /// `(root)` or the dotted path.
    pub(super) field: String,
    pub(super) text: String,
}

/// References and combinations inside one another stop here.
const DEEPEST: usize = 256;
/// A schema can make the work grow exponentially; this is where patience ends.
const MOST_STEPS: u64 = 5_000_000;

pub(super) fn run(document: &SchemaDocument, values: &Value) -> Result<Vec<SchemaFinding>, String> {
    let mut walk = Walk { document, steps: 0, broken: None };
    let mut outcome = Outcome::default();
    walk.schema(document.root(), values, &Path::Root, 0, &mut outcome);
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
    /// How many steps agreed: which of several failing branches came closest.
    score: i64,
}

impl Outcome {
    fn add(&mut self, path: &Path<'_>, text: impl Into<String>) {
        self.findings.push(SchemaFinding { field: path.to_string(), text: text.into() });
        self.score -= 1;
    }

    fn valid(&self) -> bool {
        self.findings.is_empty()
    }

    fn merge(&mut self, other: Outcome) {
        self.findings.extend(other.findings);
        self.score += other.score;
    }
}

struct Walk<'d> {
    document: &'d SchemaDocument,
    steps: u64,
    broken: Option<String>,
}

impl<'d> Walk<'d> {
    fn sub(&mut self, schema: &'d Value, value: &Value, path: &Path<'_>, depth: usize) -> Outcome {
        let mut outcome = Outcome::default();
        self.schema(schema, value, path, depth + 1, &mut outcome);
        outcome
    }

    fn schema(&mut self, schema: &'d Value, value: &Value, path: &Path<'_>, depth: usize, out: &mut Outcome) {
        self.steps += 1;
        if depth > DEEPEST || self.steps > MOST_STEPS {
            self.broken.get_or_insert_with(|| "the schema refers to itself without end".into());
        }
        if self.broken.is_some() {
            return;
        }
        let map = match schema {
            Value::Bool(true) => return,
            Value::Bool(false) => return out.add(path, "False always fails validation"),
            Value::Object(map) => map,
            _ => return,
        };
        if let Some(Value::String(reference)) = get(map, "$ref") {
            match self.document.resolve(reference) {
                Ok(target) => self.schema(target, value, path, depth + 1, out),
                Err(error) => self.broken = Some(error),
            }
            return;
        }
        if let Some(expected) = wrong_type(map, value) {
            return out.add(path, format!("Invalid type. Expected: {expected}, given: {}", type_of(value)));
        }
        self.combinations(map, value, path, depth, out);
        match value {
            Value::Object(entries) => {
                common(map, value, path, out);
                self.object(map, entries, path, depth, out);
            }
            Value::Array(items) => {
                self.array(map, items, path, depth, out);
                common(map, value, path, out);
            }
            Value::Number(number) => {
                numbers(map, number, path, out);
                common(map, value, path, out);
            }
            Value::String(text) => {
                common(map, value, path, out);
                strings(map, text, path, out);
            }
            Value::Null | Value::Bool(_) => common(map, value, path, out),
        }
        out.score += 1;
    }

    fn combinations(
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
                let tried = self.sub(branch, value, path, depth);
                if tried.valid() {
                    valid = true;
                    break;
                }
                if best.as_ref().is_none_or(|best| tried.score > best.score) {
                    best = Some(tried);
                }
            }
            if !valid {
                out.add(path, "Must validate at least one schema (anyOf)");
                out.merge(best.unwrap_or_default());
            }
        }
        if let Some(Value::Array(branches)) = get(map, "oneOf")
            && !branches.is_empty()
        {
            let mut best: Option<Outcome> = None;
            let mut valid = 0;
            for branch in branches {
                let tried = self.sub(branch, value, path, depth);
                if tried.valid() {
                    valid += 1;
                } else if valid == 0 && best.as_ref().is_none_or(|best| tried.score > best.score) {
                    best = Some(tried);
                }
            }
            if valid != 1 {
                out.add(path, "Must validate one and only one schema (oneOf)");
                if valid == 0 {
                    out.merge(best.unwrap_or_default());
                }
            }
        }
        if let Some(Value::Array(branches)) = get(map, "allOf")
            && !branches.is_empty()
        {
            let mut valid = true;
            for branch in branches {
                let tried = self.sub(branch, value, path, depth);
                valid &= tried.valid();
                out.merge(tried);
            }
            if !valid {
                out.add(path, "Must validate all the schemas (allOf)");
            }
        }
        if let Some(schema) = get(map, "not")
            && self.sub(schema, value, path, depth).valid()
        {
            out.add(path, "Must not validate the schema (not)");
        }
        if let (Some(Value::Object(dependencies)), Value::Object(entries)) = (get(map, "dependencies"), value)
        {
            for (key, dependency) in sorted(dependencies) {
                if !entries.contains_key(key) {
                    continue;
                }
                match dependency {
                    Value::Array(needed) => {
                        for needed in needed.iter().filter_map(Value::as_str) {
                            if !entries.contains_key(needed) {
                                out.add(path, format!("Has a dependency on {needed}"));
                            }
                        }
                    }
                    schema => self.schema(schema, value, path, depth + 1, out),
                }
            }
        }
        if let Some(condition) = get(map, "if") {
            let (key, word) = if self.sub(condition, value, path, depth).valid() {
                ("then", "valid")
            } else {
                ("else", "not valid")
            };
            if let Some(branch) = get(map, key) {
                let tried = self.sub(branch, value, path, depth);
                if !tried.valid() {
                    out.add(path, format!("Must validate \"{key}\" as \"if\" was {word}"));
                    out.merge(tried);
                }
            }
        }
    }

    fn array(
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
                    let tried = self.sub(schema, item, &Path::Item(path, index), depth);
                    out.merge(tried);
                }
                match get(map, "additionalItems") {
                    Some(Value::Bool(false)) if items.len() > schemas.len() => {
                        out.add(path, "No additional items allowed on array");
                    }
                    Some(schema @ Value::Object(_)) => {
                        for (index, item) in items.iter().enumerate().skip(schemas.len()) {
                            let tried = self.sub(schema, item, &Path::Item(path, index), depth);
                            out.merge(tried);
                        }
                    }
                    _ => {}
                }
            }
            Some(schema) => {
                for (index, item) in items.iter().enumerate() {
                    let tried = self.sub(schema, item, &Path::Item(path, index), depth);
                    out.merge(tried);
                }
            }
            None => {}
        }
        let bound = |key: &str| get(map, key).and_then(Value::as_f64);
        if let Some(least) = bound("minItems").filter(|least| (items.len() as f64) < *least) {
            out.add(path, format!("Array must have at least {least} items"));
        }
        if let Some(most) = bound("maxItems").filter(|most| (items.len() as f64) > *most) {
            out.add(path, format!("Array must have at most {most} items"));
        }
        if get(map, "uniqueItems") == Some(&Value::Bool(true)) {
            for (second, item) in items.iter().enumerate() {
                if let Some(first) = items[..second].iter().position(|other| equal(other, item)) {
                    out.add(path, format!("array items[{first},{second}] must be unique"));
                }
            }
        }
        if let Some(schema) = get(map, "contains") {
            let mut best: Option<Outcome> = None;
            let mut valid = false;
            for (index, item) in items.iter().enumerate() {
                let tried = self.sub(schema, item, &Path::Item(path, index), depth);
                if tried.valid() {
                    valid = true;
                    break;
                }
                if best.as_ref().is_none_or(|best| tried.score > best.score) {
                    best = Some(tried);
                }
            }
            if !valid {
                out.add(path, "At least one of the items must match");
                out.merge(best.unwrap_or_default());
            }
        }
        out.score += 1;
    }

    fn object(
        &mut self,
        map: &'d Map<String, Value>,
        entries: &Map<String, Value>,
        path: &Path<'_>,
        depth: usize,
        out: &mut Outcome,
    ) {
        let bound = |key: &str| get(map, key).and_then(Value::as_f64);
        if let Some(least) = bound("minProperties").filter(|least| (entries.len() as f64) < *least) {
            out.add(path, format!("Must have at least {least} properties"));
        }
        if let Some(most) = bound("maxProperties").filter(|most| (entries.len() as f64) > *most) {
            out.add(path, format!("Must have at most {most} properties"));
        }
        if let Some(Value::Array(required)) = get(map, "required") {
            for name in required.iter().filter_map(Value::as_str) {
                if entries.contains_key(name) {
                    out.score += 1;
                } else {
                    out.add(path, format!("{name} is required"));
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
            for (key, value) in sorted(entries) {
                let mut described = properties.is_some_and(|properties| properties.contains_key(key));
                for (pattern, schema) in &patterns {
                    if pattern.is_match(key.as_bytes()) {
                        described = true;
                        let tried = self.sub(schema, value, &Path::Child(path, key), depth);
                        out.merge(tried);
                    }
                }
                match additional {
                    Some(Value::Bool(false)) if !described => {
                        out.add(path, format!("Additional property {key} is not allowed"));
                    }
                    Some(schema @ Value::Object(_)) if !described => {
                        let tried = self.sub(schema, value, &Path::Child(path, key), depth);
                        out.merge(tried);
                    }
                    _ => {}
                }
            }
        }
        if let Some(schema) = get(map, "propertyNames") {
            for (key, _) in sorted(entries) {
                let tried = self.sub(schema, &Value::String(key.clone()), path, depth);
                if !tried.valid() {
                    out.add(path, format!("Property name of \"{key}\" does not match"));
                    out.merge(tried);
                }
            }
        }
        for (key, schema) in properties.map(sorted).unwrap_or_default() {
            if let Some(value) = entries.get(key) {
                self.schema(schema, value, &Path::Child(path, key), depth + 1, out);
            }
        }
        out.score += 1;
    }
}

fn sorted(map: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_by_key(|(key, _)| *key);
    entries
}

fn is_whole(number: &Number) -> bool {
    number.as_f64().is_none_or(|number| number.fract() == 0.0)
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if is_whole(number) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// What was expected, if the value is none of it.
fn wrong_type(map: &Map<String, Value>, value: &Value) -> Option<String> {
    let types: Vec<&str> = match get(map, "type")? {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    let given = type_of(value);
    let fits = types.iter().any(|kind| *kind == given || (*kind == "number" && given == "integer"));
    match types.as_slice() {
        [] => None,
        _ if fits => None,
        [one] => Some((*one).to_owned()),
        several => Some(format!("[{}]", several.join(","))),
    }
}

fn common(map: &Map<String, Value>, value: &Value, path: &Path<'_>, out: &mut Outcome) {
    if let Some(wanted) = get(map, "const")
        && !equal(wanted, value)
    {
        out.add(path, format!("{path} does not match: {}", go_json(wanted)));
    }
    if let Some(Value::Array(allowed)) = get(map, "enum")
        && !allowed.iter().any(|allowed| equal(allowed, value))
    {
        let allowed: Vec<String> = allowed.iter().map(go_json).collect();
        out.add(path, format!("{path} must be one of the following: {}", allowed.join(", ")));
    }
    out.score += 1;
}

fn numbers(map: &Map<String, Value>, number: &Number, path: &Path<'_>, out: &mut Outcome) {
    let Some(value) = number.as_f64() else { return };
    let bound = |key: &str| get(map, key).and_then(Value::as_f64);
    let flagged = |key: &str| get(map, key) == Some(&Value::Bool(true));
    if let Some(step) = bound("multipleOf")
        && step != 0.0
    {
        let times = value / step;
        if (times - times.round()).abs() > 1e-9 * times.abs().max(1.0) {
            out.add(path, format!("Must be a multiple of {}", plain(step)));
        }
    }
    if let Some(most) = bound("maximum") {
        if flagged("exclusiveMaximum") {
            if value >= most {
                out.add(path, format!("Must be less than {}", plain(most)));
            }
        } else if value > most {
            out.add(path, format!("Must be less than or equal to {}", plain(most)));
        }
    }
    if let Some(most) = bound("exclusiveMaximum").filter(|most| value >= *most) {
        out.add(path, format!("Must be less than {}", plain(most)));
    }
    if let Some(least) = bound("minimum") {
        if flagged("exclusiveMinimum") {
            if value <= least {
                out.add(path, format!("Must be greater than {}", plain(least)));
            }
        } else if value < least {
            out.add(path, format!("Must be greater than or equal to {}", plain(least)));
        }
    }
    if let Some(least) = bound("exclusiveMinimum").filter(|least| value <= *least) {
        out.add(path, format!("Must be greater than {}", plain(least)));
    }
    out.score += 1;
}

fn plain(number: f64) -> String {
    slipway_yaml::go_float(number)
}

fn strings(map: &Map<String, Value>, text: &str, path: &Path<'_>, out: &mut Outcome) {
    let bound = |key: &str| get(map, key).and_then(Value::as_f64);
    let length = text.chars().count() as f64;
    if let Some(least) = bound("minLength").filter(|least| length < *least) {
        out.add(path, format!("String length must be greater than or equal to {least}"));
    }
    if let Some(most) = bound("maxLength").filter(|most| length > *most) {
        out.add(path, format!("String length must be less than or equal to {most}"));
    }
    if let Some(Value::String(pattern)) = get(map, "pattern")
        && Regexp::compile(pattern.as_bytes()).is_ok_and(|regex| !regex.is_match(text.as_bytes()))
    {
        out.add(path, format!("Does not match pattern '{pattern}'"));
    }
    if let Some(Value::String(name)) = get(map, "format")
        && !format::fits(name, text)
    {
        out.add(path, format!("Does not match format '{name}'"));
    }
    out.score += 1;
}

/// Equality with numbers compared by value.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        (a, b) => a == b,
    }
}

/// A value as Go's encoder writes it in a message.
fn go_json(value: &Value) -> String {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => slipway_yaml::go_json_float(float),
            _ => number.to_string(),
        },
        Value::Array(items) => format!("[{}]", items.iter().map(go_json).collect::<Vec<_>>().join(",")),
        Value::Object(map) => {
            let entries = sorted(map);
            let entries: Vec<String> = entries
                .into_iter()
                .map(|(key, value)| format!("{}:{}", Value::String(key.clone()), go_json(value)))
                .collect();
            format!("{{{}}}", entries.join(","))
        }
        other => other.to_string(),
    }
}
