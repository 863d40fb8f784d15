//! Label and field selectors of lists and watches, with the words the real parser uses.

use serde_json::{Value, json};

use crate::admit::meta;
use crate::admit::rules;
use crate::resource::Served;
use crate::status::{Cause, Result, Status};
use crate::store::Object;

/// Selectors longer than this are refused.
const LONGEST: usize = 64 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    Greater,
    Less,
}

/// One condition on labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

/// A label selector; the empty one selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels(Vec<Requirement>);

impl Labels {
    pub fn parse(text: &str) -> std::result::Result<Labels, String> {
        if text.len() > LONGEST {
            return Err("the label selector is too long".into());
        }
        Parser { tokens: lex(text), at: 0 }.parse()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an object has the labels asked for.
    pub fn matches(&self, object: &Object) -> bool {
        self.0.iter().all(|r| r.matches(object.label(&r.key)))
    }

    /// A selector of `LabelSelector` form, as objects carry it. Null selects nothing.
    pub fn of_selector(selector: &Value) -> Option<Labels> {
        let members = selector.as_object()?;
        let mut out = Vec::new();
        for (key, value) in members.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
            out.push(Requirement {
                key: key.clone(),
                operator: Operator::In,
                values: vec![value.as_str().unwrap_or("").to_owned()],
            });
        }
        for e in members.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            let operator = match e["operator"].as_str()? {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                _ => return None,
            };
            let values = e["values"].as_array().into_iter().flatten();
            out.push(Requirement {
                key: e["key"].as_str()?.to_owned(),
                operator,
                values: values.filter_map(|v| v.as_str().map(str::to_owned)).collect(),
            });
        }
        Some(Labels(out))
    }

    /// A selector of plain `key: value` form, as services and replication controllers carry it.
    pub fn of_map(map: &Value) -> Labels {
        Labels::of_selector(&json!({"matchLabels": map})).unwrap_or_default()
    }
}

impl Requirement {
    fn matches(&self, value: Option<&str>) -> bool {
        let listed = || self.values.iter().any(|v| Some(v.as_str()) == value);
        let number = |v: Option<&str>| v.and_then(|v| v.parse::<i64>().ok());
        match self.operator {
            Operator::In => value.is_some() && listed(),
            Operator::NotIn => value.is_none() || !listed(),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Greater | Operator::Less => {
                let (Some(has), Some(wants)) =
                    (number(value), number(self.values.first().map(String::as_str)))
                else {
                    return false;
                };
                if self.operator == Operator::Greater { has > wants } else { has < wants }
            }
        }
    }
}

/// Tokens are the words and symbols themselves; the empty one ends the text.
fn lex(text: &str) -> Vec<String> {
    let special = |c: char| matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<');
    let mut out = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(&c) = chars.peek() {
        if c.is_whitespace() {
            chars.next();
        } else if special(c) {
            chars.next();
            let pair = (c == '=' || c == '!') && chars.peek() == Some(&'=');
            let mut word = String::from(c);
            if pair {
                chars.next();
                word.push('=');
            }
            out.push(word);
        } else {
            let mut word = String::new();
            while let Some(&c) = chars.peek() {
                if special(c) || c.is_whitespace() {
                    break;
                }
                word.push(c);
                chars.next();
            }
            out.push(word);
        }
    }
    out.push(String::new());
    out
}

fn is_word(token: &str) -> bool {
    !token.is_empty() && !matches!(token, "=" | "==" | "!" | "!=" | "(" | ")" | "," | ">" | "<")
}

struct Parser {
    tokens: Vec<String>,
    at: usize,
}

impl Parser {
    fn look(&self) -> &str {
        self.tokens.get(self.at).map_or("", String::as_str)
    }

    fn take(&mut self) -> String {
        let token = self.look().to_owned();
        self.at += 1;
        token
    }

    fn parse(mut self) -> std::result::Result<Labels, String> {
        let mut out = Vec::new();
        loop {
            let token = self.look();
            if token.is_empty() {
                return Ok(Labels(out));
            }
            if !is_word(token) && token != "!" {
                return Err(format!("found '{token}', expected: !, identifier, or 'end of string'"));
            }
            out.push(self.requirement().map_err(|e| format!("unable to parse requirement: {e}"))?);
            match self.take().as_str() {
                "" => return Ok(Labels(out)),
                "," => {
                    let next = self.look();
                    if !is_word(next) && next != "!" {
                        return Err(format!("found '{next}', expected: identifier after ','"));
                    }
                }
                other => return Err(format!("found '{other}', expected: ',' or 'end of string'")),
            }
        }
    }

    fn requirement(&mut self) -> std::result::Result<Requirement, String> {
        let mut token = self.take();
        let negated = token == "!";
        if negated {
            token = self.take();
        }
        if !is_word(&token) {
            return Err(format!("found '{token}', expected: identifier"));
        }
        let problems = meta::qualified_problems(&token);
        if !problems.is_empty() {
            return Err(format!("key: Invalid value: {}: {}", json!(token), problems.join("; ")));
        }
        let key = token;
        let bare = matches!(self.look(), "" | ",");
        if negated || bare {
            let operator = if negated { Operator::DoesNotExist } else { Operator::Exists };
            return Ok(Requirement { key, operator, values: vec![] });
        }
        let word = self.take();
        let (operator, mut values) = match word.as_str() {
            "in" => (Operator::In, self.values()?),
            "notin" => (Operator::NotIn, self.values()?),
            "=" | "==" => (Operator::In, vec![self.exact()?]),
            "!=" => (Operator::NotIn, vec![self.exact()?]),
            ">" => (Operator::Greater, vec![self.exact()?]),
            "<" => (Operator::Less, vec![self.exact()?]),
            other => return Err(format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt")),
        };
        values.sort();
        values.dedup();
        if matches!(operator, Operator::In | Operator::NotIn) && values.is_empty() {
            return Err(
                "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty".into()
            );
        }
        for (i, value) in values.iter().enumerate() {
            if matches!(operator, Operator::Greater | Operator::Less) && value.parse::<i64>().is_err() {
                return Err(format!(
                    "values[{i}]: Invalid value: {}: for 'Gt', 'Lt' operators, the value must be an integer",
                    json!(value)
                ));
            }
            let problems = meta::label_value_problems(value);
            if !problems.is_empty() {
                return Err(format!(
                    "values[{i}][{key}]: Invalid value: {}: {}",
                    json!(value),
                    problems.join("; ")
                ));
            }
        }
        Ok(Requirement { key, operator, values })
    }

    fn exact(&mut self) -> std::result::Result<String, String> {
        if matches!(self.look(), "" | ",") {
            return Ok(String::new());
        }
        let token = self.take();
        if is_word(&token) { Ok(token) } else { Err(format!("found '{token}', expected: identifier")) }
    }

    fn values(&mut self) -> std::result::Result<Vec<String>, String> {
        let open = self.take();
        if open != "(" {
            return Err(format!("found '{open}' expected: '('"));
        }
        let mut out = Vec::new();
        if self.look() == ")" {
            self.take();
            return Ok(out);
        }
        if !is_word(self.look()) && self.look() != "," {
            return Err(format!("found '{}', expected: ',', ')' or identifier", self.look()));
        }
        loop {
            let token = self.take();
            if is_word(&token) {
                out.push(token);
                match self.look() {
                    "," => {}
                    ")" => break,
                    other => return Err(format!("found '{other}', expected: ',' or ')'")),
                }
            } else if token == "," {
                if out.is_empty() {
                    out.push(String::new());
                }
                if self.look() == ")" {
                    out.push(String::new());
                    break;
                }
                if self.look() == "," {
                    self.take();
                    out.push(String::new());
                }
            } else {
                return Err(format!("found '{token}', expected: ',', or identifier"));
            }
        }
        self.take();
        Ok(out)
    }
}

/// A field selector.
#[derive(Debug, Clone, Default)]
pub struct Fields(Vec<Field>);

#[derive(Debug, Clone)]
struct Field {
    place: Place,
    equal: bool,
    value: String,
}

#[derive(Debug, Clone)]
enum Place {
    Name,
    Namespace,
    Pointer(String),
}

impl Fields {
    pub(crate) fn parse(text: &str, served: &Served) -> Result<Fields> {
        if text.len() > LONGEST {
            return Err(Status::bad_request("the field selector is too long"));
        }
        let mut out = Vec::new();
        for part in split_unescaped(text) {
            if part.is_empty() {
                continue;
            }
            let (key, equal, value) = split_operator(&part).ok_or_else(|| {
                Status::bad_request(format!("invalid selector: '{text}'; can't understand '{part}'"))
            })?;
            out.push(Field { place: place(key, served)?, equal, value: unescape(value) });
        }
        Ok(Fields(out))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The one name selected, if it is one.
    pub fn name(&self) -> Option<&str> {
        self.0.iter().find(|f| f.equal && matches!(f.place, Place::Name)).map(|f| f.value.as_str())
    }

    pub fn matches(&self, object: &Object) -> bool {
        if self.0.is_empty() {
            return true;
        }
        let mut parsed: Option<Value> = None;
        self.0.iter().all(|field| {
            let equal = match &field.place {
                Place::Name => *object.key.name == *field.value,
                Place::Namespace => *object.key.namespace == *field.value,
                Place::Pointer(path) => {
                    let value = parsed.get_or_insert_with(|| object.value());
                    let found = match value.pointer(path) {
                        Some(Value::String(s)) => s.clone(),
                        Some(Value::Bool(b)) => b.to_string(),
                        Some(Value::Number(n)) => n.to_string(),
                        _ if path.ends_with("replicas") || path.ends_with("succeeded") => "0".into(),
                        _ if path.ends_with("unschedulable") || path.ends_with("hostNetwork") => {
                            "false".into()
                        }
                        _ => String::new(),
                    };
                    found == field.value
                }
            };
            equal == field.equal
        })
    }
}

fn place(key: &str, served: &Served) -> Result<Place> {
    match key {
        "metadata.name" => return Ok(Place::Name),
        "metadata.namespace" => return Ok(Place::Namespace),
        _ => {}
    }
    if let Some(custom) = &served.custom {
        if let Some(pointer) = custom.selectable(key) {
            return Ok(Place::Pointer(pointer));
        }
        return Err(Status::bad_request(format!("field label not supported: {key}")));
    }
    match rules::selectable(&served.table) {
        Some(known) => match known.iter().find(|(name, _)| *name == key) {
            Some((_, pointer)) => Ok(Place::Pointer((*pointer).to_owned())),
            None => Err(Status::bad_request(format!("field label not supported: {key}"))),
        },
        None => Err(Status::bad_request(format!(
            "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
            json!(key)
        ))),
    }
}

fn split_unescaped(text: &str) -> Vec<String> {
    let mut out = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        match c {
            ',' if !escaped => out.push(String::new()),
            _ => {
                if let Some(last) = out.last_mut() {
                    last.push(c);
                }
            }
        }
        escaped = c == '\\' && !escaped;
    }
    out
}

fn split_operator(part: &str) -> Option<(&str, bool, &str)> {
    let at = part.find(['=', '!'])?;
    let rest = &part[at..];
    for (operator, equal) in [("!=", false), ("==", true), ("=", true)] {
        if let Some(value) = rest.strip_prefix(operator) {
            return Some((part[..at].trim(), equal, value.trim()));
        }
    }
    None
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c == '\\' {
            out.extend(chars.next());
        } else {
            out.push(c);
        }
    }
    out
}

/// Both selectors of a list or watch.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub labels: Labels,
    pub fields: Fields,
}

impl Filter {
    pub(crate) fn read(query: &crate::query::Query, served: &Served) -> Result<Filter> {
        let labels = match query.some("labelSelector") {
            Some(text) => Labels::parse(text).map_err(Status::bad_request)?,
            None => Labels::default(),
        };
        let fields = match query.some("fieldSelector") {
            Some(text) => Fields::parse(text, served)?,
            None => Fields::default(),
        };
        Ok(Filter { labels, fields })
    }

    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub fn matches(&self, object: &Object) -> bool {
        self.labels.matches(object) && self.fields.matches(object)
    }
}

/// 422 about list options.
pub(crate) fn bad_list_option(causes: Vec<Cause>) -> Box<Status> {
    crate::query::bad_option("ListOptions", causes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_problems() {
        for (text, why) in [
            ("app in", "unable to parse requirement: found '' expected: '('"),
            ("a=b=c", "found '=', expected: ',' or 'end of string'"),
            ("=x", "found '=', expected: !, identifier, or 'end of string'"),
            ("app in (a", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("app=bad value", "found 'value', expected: ',' or 'end of string'"),
        ] {
            assert_eq!(Labels::parse(text), Err(why.to_owned()), "{text}");
        }
        for good in ["", "a", "!a", "a=b,c!=d", "a in (x,y)", "a notin (x)", "a>1", "app="] {
            assert!(Labels::parse(good).is_ok(), "{good}");
        }
    }
}
