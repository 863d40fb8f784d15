//! The fields to explain: `Deployment/web:spec.replicas`.

use slipway_yaml::YamlNode;

use crate::error::ChartError;

/// An object, or all of them, and a field in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldQuery {
    /// `Deployment`, `Deployment/web`, or the path of a template; empty means any.
    pub object: String,
    /// Keys and list indices.
    pub field: Vec<String>,
}

impl FieldQuery {
    /// Reads `[OBJECT:]FIELD`, the field as `spec.containers[0].image` or `metadata.annotations["a.b/c"]`.
    pub fn parse(text: &str) -> Result<Self, ChartError> {
        let (object, field) = match text.split_once(':') {
            Some((object, field)) if !object.contains(['[', '"']) => (object, field),
            _ => ("", text),
        };
        let bad =
            || ChartError::Values(format!("{text:?} names no field: write OBJECT:spec.replicas").into());
        let mut parts = Vec::new();
        let mut rest = field.trim_start_matches('.');
        while !rest.is_empty() {
            if let Some(inner) = rest.strip_prefix("[\"") {
                let (key, after) = inner.split_once("\"]").ok_or_else(bad)?;
                parts.push(key.to_owned());
                rest = after;
            } else if let Some(inner) = rest.strip_prefix('[') {
                let (index, after) = inner.split_once(']').ok_or_else(bad)?;
                parts.push(index.to_owned());
                rest = after;
            } else {
                let end = rest.find(['.', '[']).unwrap_or(rest.len());
                parts.push(rest[..end].to_owned());
                rest = &rest[end..];
            }
            rest = rest.strip_prefix('.').unwrap_or(rest);
        }
        if parts.is_empty() || parts.iter().any(String::is_empty) {
            return Err(bad());
        }
        Ok(Self { object: object.to_owned(), field: parts })
    }

    pub(super) fn field_text(&self) -> String {
        let mut text = String::new();
        for part in &self.field {
            if part.bytes().all(|byte| byte.is_ascii_digit()) {
                text.push_str(&format!("[{part}]"));
            } else if part.contains(['.', '/', '[']) {
                text.push_str(&format!("[{part:?}]"));
            } else {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(part);
            }
        }
        text
    }

    pub(super) fn object_name(document: &YamlNode) -> String {
        let text = |path: &[&str]| {
            document
                .node_at(path.iter().copied())
                .and_then(|node| node.scalar_text().map(std::borrow::Cow::into_owned))
                .unwrap_or_default()
        };
        format!("{}/{}", text(&["kind"]), text(&["metadata", "name"]))
    }

    pub(super) fn matches_document(&self, document: &YamlNode, template: &str) -> bool {
        if self.object.is_empty() {
            return true;
        }
        let name = Self::object_name(document);
        let kind = name.split('/').next().unwrap_or_default();
        let wanted = &self.object;
        name.eq_ignore_ascii_case(wanted)
            || kind.eq_ignore_ascii_case(wanted)
            || template == wanted
            || template.split_once('/').is_some_and(|(_, inner)| inner == wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_name_an_object_and_a_field() {
        for (text, object, field) in [
            ("spec.replicas", "", vec!["spec", "replicas"]),
            (
                "Deployment/web:spec.containers[0].image",
                "Deployment/web",
                vec!["spec", "containers", "0", "image"],
            ),
            ("metadata.annotations[\"a.b/c:d\"]", "", vec!["metadata", "annotations", "a.b/c:d"]),
            ("templates/x.yaml:data.a", "templates/x.yaml", vec!["data", "a"]),
        ] {
            let query = FieldQuery::parse(text).unwrap();
            assert_eq!(
                (query.object.as_str(), query.field),
                (object, field.into_iter().map(str::to_owned).collect())
            );
        }
        for text in ["", "a..b", "Pod:", "a[0"] {
            assert!(FieldQuery::parse(text).is_err(), "{text:?}");
        }
    }
}
