//! Where an object is written, to point at when something is wrong with it.

use std::sync::Arc;

use serde_json::Value;
use slipway_manifest::object;
use slipway_problem::{Location, Problem};

/// The file an object comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The template or file; what `# Source:` says.
    pub path: Arc<str>,
    /// The file itself, as it was before anything was filled in.
    pub text: Option<Arc<str>>,
}

impl Origin {
    pub fn new(path: impl Into<Arc<str>>) -> Self {
        Self { path: path.into(), text: None }
    }

    pub fn with_text(path: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> Self {
        Self { path: path.into(), text: Some(text.into()) }
    }

    /// The line about `word` in the document that looks most like the object's.
    ///
    /// A template is not what came out of it, so this looks for what survives: the kind, the name, the word.
    pub fn locate(&self, object: &Value, word: &str) -> Location {
        let file = || Location::file(Arc::clone(&self.path));
        let Some(text) = self.text.as_deref() else { return file() };
        let (kind, name) =
            (object::kind(object).unwrap_or_default(), object::name(object).unwrap_or_default());
        let mut best: Option<(u32, u32)> = None;
        let mut line = 0u32;
        let mut document: (u32, Option<u32>, Option<u32>) = (0, None, None);
        let mut close = |(score, word, kind): (u32, Option<u32>, Option<u32>)| {
            let (score, at) = match (word, kind) {
                (Some(at), _) => (score + 4, at),
                (None, Some(at)) => (score, at),
                (None, None) => return,
            };
            if best.is_none_or(|(known, _)| score > known) {
                best = Some((score, at));
            }
        };
        for content in text.lines() {
            line += 1;
            if content.starts_with("---") {
                close(std::mem::take(&mut document));
                continue;
            }
            if !word.is_empty() && document.1.is_none() && content.contains(word) {
                document.1 = Some(line);
            }
            let trimmed = content.trim_start();
            if document.2.is_none()
                && trimmed.strip_prefix("kind:").is_some_and(|rest| rest.trim().trim_matches('"') == kind)
            {
                document.2 = Some(line);
                document.0 += 1;
            }
            if trimmed.strip_prefix("name:").is_some_and(|rest| rest.trim().trim_matches('"') == name) {
                document.0 += 2;
            }
        }
        close(document);
        best.map_or_else(file, |(_, line)| {
            let column = text.lines().nth(line as usize - 1).map_or(1, |content| {
                let found = if word.is_empty() { None } else { content.find(word) };
                found.unwrap_or(content.len() - content.trim_start().len()) as u32 + 1
            });
            Location::new(Arc::clone(&self.path), line, column)
        })
    }

    /// Puts a problem where it belongs.
    pub fn blame(&self, object: &Value, word: &str, problem: Problem) -> Problem {
        if self.path.is_empty() {
            return problem;
        }
        let at = self.locate(object, word);
        match &self.text {
            Some(text) => problem.in_text(at, text),
            None => problem.at(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_line_of_the_right_document_is_found() {
        let text = "kind: ConfigMap\nmetadata:\n  name: {{ .x }}\n  annotations:\n    werf.io/weight: a\n---\n\
                    kind: Service\nmetadata:\n  name: web\n  annotations:\n    werf.io/weight: b\n";
        let origin = Origin::with_text("c/templates/x.yaml", text);
        let service = json!({"kind": "Service", "metadata": {"name": "web"}});
        assert_eq!(origin.locate(&service, "werf.io/weight").to_string(), "c/templates/x.yaml:11:5");
        let map = json!({"kind": "ConfigMap", "metadata": {"name": "computed"}});
        assert_eq!(origin.locate(&map, "werf.io/weight").to_string(), "c/templates/x.yaml:5:5");
        assert_eq!(origin.locate(&map, "").to_string(), "c/templates/x.yaml:1:1");
    }
}
