//! kubectl's JSONPath dialect: `{.items[*].metadata.name}`, `{range …}{end}`, filters, unions, slices.
//!
//! ```
//! use slipway_manifest::jsonpath::JsonPath;
//! let path = JsonPath::parse("{range .items[?(@.ready==true)]}{.name}{'\\n'}{end}").expect("parses");
//! let object = serde_json::json!({"items": [{"name": "a", "ready": true}, {"name": "b", "ready": false}]});
//! assert_eq!(path.print_object(&object).expect("prints"), "a\n");
//! ```

mod eval;
mod parse;

use std::borrow::Cow;

use serde_json::Value;

use parse::TemplateItem;

/// The reason a template cannot be read or executed; the texts are kubectl's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonPathError {
    #[error("error parsing jsonpath {template}, {message}")]
    Parse { template: String, message: String },
    #[error("{0}")]
    Execute(String),
}

/// The treatment of fields that do not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MissingFields {
    /// Nothing is found, as in `kubectl get -o jsonpath`.
    #[default]
    Ignore,
    /// `x is not found`, as in `kubectl wait --for=jsonpath`.
    Fail,
    /// Nothing is found, and neither is anything where kubectl has an error: a path through a value of
    /// another type, an index or slice beyond the end, a comparison of what cannot be compared.
    Lenient,
}

/// A template, ready to be executed.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    items: Vec<TemplateItem>,
    missing: MissingFields,
}

impl JsonPath {
    /// Reads a template: text with actions in braces.
    pub fn parse(template: &str) -> Result<Self, JsonPathError> {
        let items = parse::parse_template(template).map_err(|message| JsonPathError::Parse {
            template: template.to_owned(),
            message: message.into(),
        })?;
        Ok(Self { items, missing: MissingFields::Ignore })
    }

    /// Reads a path as `--sort-by` and custom columns take it: with or without braces and leading dot.
    pub fn parse_relaxed(path: &str) -> Result<Self, JsonPathError> {
        if path.is_empty() {
            return Self::parse(path);
        }
        let inner = match path.strip_prefix('{') {
            Some(rest) => rest.strip_suffix('}'),
            None if path.ends_with('}') => None,
            None => Some(path),
        };
        let inner = inner.filter(|inner| !inner.is_empty() && !inner.contains(['{', '}'])).ok_or_else(|| {
            let expected = "unexpected path string, expected a 'name1.name2' or '.name1.name2' or '{name1.name2}' or '{.name1.name2}'";
            JsonPathError::Execute(expected.to_owned())
        })?;
        let dot = if inner.starts_with(['.', '[', '$', '@']) { "" } else { "." };
        Self::parse(&format!("{{{dot}{inner}}}"))
    }

    /// Says what to do about fields that are not there.
    #[must_use]
    pub fn with_missing_fields(mut self, missing: MissingFields) -> Self {
        self.missing = missing;
        self
    }

    /// Finds what each action names, in order.
    pub fn find_values<'a>(&self, object: &'a Value) -> Result<Vec<Vec<Cow<'a, Value>>>, JsonPathError> {
        crate::depth::check_depth(object).map_err(|error| JsonPathError::Execute(error.to_string()))?;
        eval::execute_template(&self.items, object, self.missing)
            .map_err(|error| JsonPathError::Execute(error.into()))
    }

    /// Prints the template as kubectl does: values of one action separated by spaces.
    pub fn print_object(&self, object: &Value) -> Result<String, JsonPathError> {
        let mut text = String::new();
        for values in self.find_values(object)? {
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    text.push(' ');
                }
                text.push_str(&eval::print_value(value));
            }
        }
        Ok(text)
    }
}
