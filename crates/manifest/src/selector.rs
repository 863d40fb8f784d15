//! Label and field selectors, read as `kubectl -l` and `--field-selector` write them.

use std::fmt;

use serde_json::Value;

use crate::names;
use slipway_go::GoError;

/// The reason a selector cannot be read; the texts are Kubernetes'.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub String);

/// The condition a requirement sets on a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelCondition {
    Exists,
    DoesNotExist,
    In(Vec<String>),
    /// Objects without the label match, too.
    NotIn(Vec<String>),
    GreaterThan(i64),
    LessThan(i64),
}

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelRequirement {
    pub key: String,
    pub requires: LabelCondition,
}

/// A label selector: all requirements must hold. An empty one selects everything.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LabelSelector(pub Vec<LabelRequirement>);

impl LabelRequirement {
    /// Returns true if a label value (or its absence) meets it.
    pub fn matches(&self, value: Option<&str>) -> bool {
        match (&self.requires, value) {
            (LabelCondition::Exists, value) => value.is_some(),
            (LabelCondition::DoesNotExist, value) => value.is_none(),
            (LabelCondition::In(values), Some(value)) => values.iter().any(|known| known == value),
            (LabelCondition::NotIn(values), Some(value)) => !values.iter().any(|known| known == value),
            (LabelCondition::NotIn(_), None) => true,
            (LabelCondition::GreaterThan(bound), Some(value)) => {
                value.parse::<i64>().is_ok_and(|value| value > *bound)
            }
            (LabelCondition::LessThan(bound), Some(value)) => {
                value.parse::<i64>().is_ok_and(|value| value < *bound)
            }
            (_, None) => false,
        }
    }
}

impl LabelSelector {
    /// Reads `a=b,c in (d,e),!f`.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let tokens = tokenize(text);
        let mut parser = Parser { tokens: &tokens, at: 0 };
        let mut requirements = parser.parse_requirements().map_err(|error| SelectorError(error.into()))?;
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self(requirements))
    }

    /// Reads the selector of an object's spec: `{matchLabels, matchExpressions}`. Nothing selects nothing
    /// in Kubernetes, so `null` gives `None`.
    pub fn from_object(selector: &Value) -> Result<Option<Self>, SelectorError> {
        if selector.is_null() {
            return Ok(None);
        }
        let mut requirements = Vec::new();
        for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
            let value = value.as_str().unwrap_or_default().to_owned();
            requirements
                .push(LabelRequirement { key: key.clone(), requires: LabelCondition::In(vec![value]) });
        }
        for expression in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            let text = |key: &str| expression.get(key).and_then(Value::as_str).unwrap_or_default();
            let values = || -> Vec<String> {
                let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
                values.filter_map(|value| value.as_str().map(str::to_owned)).collect()
            };
            let requires = match text("operator") {
                "In" => LabelCondition::In(values()),
                "NotIn" => LabelCondition::NotIn(values()),
                "Exists" => LabelCondition::Exists,
                "DoesNotExist" => LabelCondition::DoesNotExist,
                other => {
                    return Err(SelectorError(format!("{other:?} is not a valid label selector operator")));
                }
            };
            if matches!(&requires, LabelCondition::In(values) | LabelCondition::NotIn(values) if values.is_empty())
            {
                return Err(SelectorError(
                    "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
                        .to_owned(),
                ));
            }
            requirements.push(LabelRequirement { key: text("key").to_owned(), requires });
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Some(Self(requirements)))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if labels, given by a lookup, meet every requirement.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|requirement| requirement.matches(label(&requirement.key)))
    }

    /// Returns true if an object's labels meet every requirement.
    pub fn matches_object(&self, object: &Value) -> bool {
        self.matches(|key| crate::object::label(object, key))
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, LabelRequirement { key, requires }) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            match requires {
                LabelCondition::Exists => write!(f, "{key}")?,
                LabelCondition::DoesNotExist => write!(f, "!{key}")?,
                LabelCondition::In(values) if values.len() == 1 => write!(f, "{key}={}", values[0])?,
                LabelCondition::NotIn(values) if values.len() == 1 => write!(f, "{key}!={}", values[0])?,
                LabelCondition::In(values) => write!(f, "{key} in ({})", sorted_list(values))?,
                LabelCondition::NotIn(values) => write!(f, "{key} notin ({})", sorted_list(values))?,
                LabelCondition::GreaterThan(bound) => write!(f, "{key}>{bound}")?,
                LabelCondition::LessThan(bound) => write!(f, "{key}<{bound}")?,
            }
        }
        Ok(())
    }
}

fn sorted_list(values: &[String]) -> String {
    let mut values = values.to_vec();
    values.sort();
    values.join(",")
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Symbol(&'static str),
    Bad(String),
    End,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Token::Word(text) | Token::Bad(text) => text,
            Token::Symbol(text) => text,
            Token::End => "",
        }
    }
}

fn tokenize(text: &str) -> Vec<Token> {
    let is_symbol = |c: char| matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<');
    let is_space = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while let Some(first) = rest.chars().next() {
        if is_symbol(first) {
            let symbol = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"]
                .into_iter()
                .find(|symbol| rest.starts_with(symbol));
            match symbol {
                Some(symbol) => {
                    tokens.push(Token::Symbol(symbol));
                    rest = &rest[symbol.len()..];
                }
                None => {
                    tokens.push(Token::Bad(format!("error expected: keyword found '{first}'")));
                    rest = &rest[first.len_utf8()..];
                }
            }
        } else {
            let end = rest.find(|c| is_symbol(c) || is_space(c)).unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..end].to_owned()));
            rest = &rest[end..];
        }
        rest = rest.trim_start_matches(is_space);
    }
    tokens.push(Token::End);
    tokens
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).unwrap_or(&Token::End)
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn parse_requirements(&mut self) -> Result<Vec<LabelRequirement>, GoError> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                Token::Word(_) | Token::Symbol("!") => {
                    let requirement = self
                        .parse_requirement()
                        .map_err(|error| format!("unable to parse requirement: {error}"))?;
                    requirements.push(requirement);
                    match self.next() {
                        Token::End => return Ok(requirements),
                        Token::Symbol(",") => {
                            if !matches!(self.peek(), Token::Word(_) | Token::Symbol("!")) {
                                return Err(format!(
                                    "found '{}', expected: identifier after ','",
                                    self.peek().text()
                                )
                                .into());
                            }
                        }
                        other => {
                            return Err(format!(
                                "found '{}', expected: ',' or 'end of string'",
                                other.text()
                            )
                            .into());
                        }
                    }
                }
                Token::End => return Ok(requirements),
                other => {
                    return Err(format!(
                        "found '{}', expected: !, identifier, or 'end of string'",
                        other.text()
                    )
                    .into());
                }
            }
        }
    }

    fn parse_requirement(&mut self) -> Result<LabelRequirement, GoError> {
        let mut token = self.next();
        let absent = token == Token::Symbol("!");
        if absent {
            token = self.next();
        }
        let Token::Word(key) = token else {
            return Err(format!("found '{}', expected: identifier", token.text()).into());
        };
        if let Err(problems) = names::check_label_key(&key) {
            return Err(format!("<nil>: Invalid value: {key:?}: {}", problems.join("; ")).into());
        }
        let ends = matches!(self.peek(), Token::End | Token::Symbol(","));
        if absent {
            return Ok(LabelRequirement { key, requires: LabelCondition::DoesNotExist });
        }
        if ends {
            return Ok(LabelRequirement { key, requires: LabelCondition::Exists });
        }
        let operator = self.next();
        let values = match operator.text() {
            // `in ()` is read as the set of the empty value.
            "in" | "notin" => {
                Some(self.parse_values()?).filter(|v| !v.is_empty()).unwrap_or_else(|| vec![String::new()])
            }
            "=" | "==" | "!=" | ">" | "<" => vec![self.parse_exact_value()?],
            other => return Err(format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt").into()),
        };
        for (index, value) in values.iter().enumerate() {
            if let Err(problems) = names::check_label_value(value) {
                return Err(format!(
                    "values[{index}][{key}]: Invalid value: {value:?}: {}",
                    problems.join("; ")
                )
                .into());
            }
        }
        let bound = |value: &str| {
            value.parse::<i64>().map_err(|_| { GoError::new(format!("values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer")) })
        };
        let requires = match operator.text() {
            "notin" | "!=" => LabelCondition::NotIn(values),
            ">" => LabelCondition::GreaterThan(bound(&values[0])?),
            "<" => LabelCondition::LessThan(bound(&values[0])?),
            _ => LabelCondition::In(values),
        };
        Ok(LabelRequirement { key, requires })
    }

    fn parse_exact_value(&mut self) -> Result<String, GoError> {
        match self.peek() {
            Token::End | Token::Symbol(",") => Ok(String::new()),
            Token::Word(_) => Ok(self.next().text().to_owned()),
            other => Err(format!("found '{}', expected: identifier", other.text()).into()),
        }
    }

    fn parse_values(&mut self) -> Result<Vec<String>, GoError> {
        let open = self.next();
        if open != Token::Symbol("(") {
            return Err(format!("found '{}' expected: '('", open.text()).into());
        }
        let mut values: Vec<String> = Vec::new();
        let mut expects_value = true;
        if *self.peek() == Token::Symbol(")") {
            self.next();
            return Ok(values);
        }
        loop {
            match self.next() {
                Token::Word(word) if expects_value => {
                    values.push(word);
                    expects_value = false;
                }
                // An empty place between commas is the empty value.
                Token::Symbol(",") => {
                    if expects_value {
                        values.push(String::new());
                    }
                    expects_value = true;
                }
                Token::Symbol(")") => {
                    if expects_value {
                        values.push(String::new());
                    }
                    values.sort();
                    values.dedup();
                    return Ok(values);
                }
                other if expects_value && values.is_empty() => {
                    return Err(format!("found '{}', expected: ',', ')' or identifier", other.text()).into());
                }
                other if expects_value => {
                    return Err(format!("found '{}', expected: ',', or identifier", other.text()).into());
                }
                other => return Err(format!("found '{}', expected: ',' or ')'", other.text()).into()),
            }
        }
    }
}

/// One condition of a field selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRequirement {
    pub field: String,
    pub value: String,
    /// `!=` rather than `=`.
    pub negated: bool,
}

/// A field selector: all conditions must hold.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FieldSelector(pub Vec<FieldRequirement>);

impl FieldSelector {
    /// Reads `metadata.name=x,status.phase!=Running`; `\,`, `\=` and `\\` are escapes in values.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut terms = vec![String::new()];
        let mut escaped = false;
        for c in text.chars() {
            match c {
                ',' if !escaped => {
                    terms.push(String::new());
                    continue;
                }
                _ => escaped = c == '\\' && !escaped,
            }
            if let Some(term) = terms.last_mut() {
                term.push(c);
            }
        }
        let mut requirements = Vec::new();
        for term in terms.iter().filter(|term| !term.is_empty()) {
            let Some((field, operator, value)) = split_term(term) else {
                return Err(SelectorError(format!("invalid selector: '{text}'; can't understand '{term}'")));
            };
            requirements.push(FieldRequirement {
                field: field.to_owned(),
                value: unescape_value(value)?,
                negated: operator == "!=",
            });
        }
        Ok(Self(requirements))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if field values, given by a lookup, meet every condition. A field that is absent is empty.
    pub fn matches<'a>(&self, field: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|r| (field(&r.field).unwrap_or_default() == r.value) != r.negated)
    }

    /// The value a field must have, if the selector fixes it.
    pub fn exact_value(&self, field: &str) -> Option<&str> {
        self.0.iter().find(|r| r.field == field && !r.negated).map(|r| r.value.as_str())
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            let operator = if requirement.negated { "!=" } else { "=" };
            let value = requirement.value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
            write!(f, "{comma}{}{operator}{value}", requirement.field)?;
        }
        Ok(())
    }
}

fn split_term(term: &str) -> Option<(&str, &'static str, &str)> {
    term.char_indices().find_map(|(at, _)| {
        let operator = ["!=", "==", "="].into_iter().find(|operator| term[at..].starts_with(operator))?;
        Some((&term[..at], operator, &term[at + operator.len()..]))
    })
}

fn unescape_value(value: &str) -> Result<String, SelectorError> {
    let mut text = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => text.push(escaped),
                other => {
                    let sequence: String = std::iter::once('\\').chain(other).collect();
                    return Err(SelectorError(format!(
                        "invalid field selector: invalid escape sequence: {sequence}"
                    )));
                }
            },
            ',' | '=' => {
                return Err(SelectorError(format!(
                    "invalid field selector: unescaped character in value: {}",
                    c as u32
                )));
            }
            other => text.push(other),
        }
    }
    Ok(text)
}
