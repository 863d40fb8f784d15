//! Bodies of nodes: JSON in which texts may hold expressions.

use std::hash::Hasher;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value};
use slipway_cel::Bindings;

use crate::expression::{EvaluationFailure, Expression};
use crate::project::feed;

/// A body, compiled. Parts without expressions stand as they are.
#[derive(Debug)]
pub(crate) enum Template {
    Literal(Value),
    /// A text that is one expression: the value keeps its type.
    Whole(Arc<Expression>),
    /// A text with expressions in it.
    Text(Vec<TextPart>),
    Map(Vec<(String, Template)>),
    List(Vec<Template>),
}

#[derive(Debug)]
pub(crate) enum TextPart {
    Literal(String),
    Expression(Arc<Expression>),
}

impl Template {
    /// The value at a moment; `None` for what is to be left out.
    pub(crate) fn render(
        &self,
        scope: &Bindings<'_>,
        now: Timestamp,
    ) -> Result<Option<Value>, EvaluationFailure> {
        Ok(Some(match self {
            Self::Literal(value) => value.clone(),
            Self::Whole(expression) => return expression.json(scope, now),
            Self::Text(parts) => {
                let mut text = String::new();
                for part in parts {
                    match part {
                        TextPart::Literal(literal) => text.push_str(literal),
                        TextPart::Expression(expression) => text.push_str(&expression.text(scope, now)?),
                    }
                }
                Value::String(text)
            }
            Self::Map(entries) => {
                let mut map = Map::new();
                for (key, value) in entries {
                    if let Some(value) = value.render(scope, now)? {
                        map.insert(key.clone(), value);
                    }
                }
                Value::Object(map)
            }
            Self::List(items) => {
                let mut list = Vec::with_capacity(items.len());
                for item in items {
                    list.extend(item.render(scope, now)?);
                }
                Value::Array(list)
            }
        }))
    }

    /// Every expression in it.
    pub(crate) fn expressions<'t>(&'t self, found: &mut Vec<&'t Arc<Expression>>) {
        match self {
            Self::Literal(_) => {}
            Self::Whole(expression) => found.push(expression),
            Self::Text(parts) => found.extend(parts.iter().filter_map(|part| match part {
                TextPart::Literal(_) => None,
                TextPart::Expression(expression) => Some(expression),
            })),
            Self::Map(entries) => entries.iter().for_each(|(_, value)| value.expressions(found)),
            Self::List(items) => items.iter().for_each(|item| item.expressions(found)),
        }
    }

    /// Hashes what it says.
    pub(crate) fn feed(&self, hasher: &mut impl Hasher) {
        match self {
            Self::Literal(value) => feed(value, hasher),
            Self::Whole(expression) => hasher.write(expression.source.as_bytes()),
            Self::Text(parts) => {
                for part in parts {
                    match part {
                        TextPart::Literal(text) => hasher.write(text.as_bytes()),
                        TextPart::Expression(expression) => {
                            hasher.write_u8(b'$');
                            hasher.write(expression.source.as_bytes());
                        }
                    }
                }
            }
            Self::Map(entries) => {
                for (key, value) in entries {
                    hasher.write(key.as_bytes());
                    value.feed(hasher);
                }
            }
            Self::List(items) => {
                hasher.write_usize(items.len());
                items.iter().for_each(|item| item.feed(hasher));
            }
        }
    }
}
