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
        self.locate_nth(object, word, 0)
    }

    /// The same of the next document that looks like it, for objects that are there more than once.
    pub fn locate_nth(&self, object: &Value, word: &str, nth: usize) -> Location {
        let file = || Location::file(Arc::clone(&self.path));
        let Some(text) = self.text.as_deref() else { return file() };
        let found = likenesses(text, object, word);
        let Some(best) = found.iter().map(|(likeness, _)| *likeness).max() else { return file() };
        let alike: Vec<u32> =
            found.into_iter().filter(|(likeness, _)| *likeness == best).map(|(_, line)| line).collect();
        // Several objects may come from one document.
        let line = alike[nth.min(alike.len() - 1)];
        let column = text.lines().nth(line as usize - 1).map_or(1, |content| {
            let found = if word.is_empty() { None } else { content.find(word) };
            found.unwrap_or(content.len() - content.trim_start().len()) as u32 + 1
        });
        Location::new(Arc::clone(&self.path), line, column)
    }

    /// Puts a problem where it belongs.
    pub fn blame(&self, object: &Value, word: &str, problem: Problem) -> Problem {
        self.blame_nth(object, word, 0, problem)
    }

    /// Puts a problem where an object stands that is there more than once.
    pub fn blame_nth(&self, object: &Value, word: &str, nth: usize, problem: Problem) -> Problem {
        if self.path.is_empty() {
            return problem;
        }
        let at = self.locate_nth(object, word, nth);
        match &self.text {
            Some(text) => problem.in_text(at, text),
            None => problem.at(at),
        }
    }
}

/// Whether the kind, the name and the word are there.
type Likeness = (bool, bool, bool);

/// How much the documents of a text look like an object's, with the line to point at in each: the kind counts
/// most, then the name, then that the word is there at all.
fn likenesses(text: &str, object: &Value, word: &str) -> Vec<(Likeness, u32)> {
    #[derive(Default)]
    struct Document {
        kind: Option<u32>,
        is_named: bool,
        word: Option<u32>,
    }
    let (kind, name) = (object::kind(object).unwrap_or_default(), object::name(object).unwrap_or_default());
    let is = |content: &str, key: &str, value: &str| {
        content.strip_prefix(key).is_some_and(|rest| rest.trim().trim_matches('"') == value)
    };
    let mut documents = vec![Document::default()];
    for (number, content) in (1..).zip(text.lines()) {
        if content.starts_with("---") {
            documents.push(Document::default());
            continue;
        }
        let Some(document) = documents.last_mut() else { continue };
        if !word.is_empty() && document.word.is_none() && content.contains(word) {
            document.word = Some(number);
        }
        let content = content.trim_start();
        if document.kind.is_none() && is(content, "kind:", kind) {
            document.kind = Some(number);
        }
        document.is_named |= is(content, "name:", name);
    }
    let likeness = |Document { kind, is_named, word }| {
        Some(((kind.is_some(), is_named, word.is_some()), word.or(kind)?))
    };
    documents.into_iter().filter_map(likeness).collect()
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
        // What is not in it is not looked for in others.
        let text = "kind: Service\nmetadata:\n  name: web\n---\nkind: ConfigMap\nspec: {}\n";
        let origin = Origin::with_text("x.yaml", text);
        assert_eq!(origin.locate(&service, "spec:").to_string(), "x.yaml:1:1");
        let text = "kind: Service\n---\nkind: Service\n";
        let origin = Origin::with_text("x.yaml", text);
        let lines = [0, 1, 2].map(|nth| origin.locate_nth(&service, "", nth).to_string());
        assert_eq!(lines, ["x.yaml:1:1", "x.yaml:3:1", "x.yaml:3:1"]);
    }
}
