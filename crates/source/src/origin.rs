//! The place an object is written at, to point at when something is wrong with it.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value;
use slipway_manifest::object;
use slipway_problem::{Location, Problem};

const HOOK: &str = "helm.sh/hook";

/// A file by the path it is shown with, and its text.
pub type TemplateFile = (Arc<str>, Arc<str>);

/// The file an object comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DocumentOrigin {
    /// The template or file; what `# Source:` says.
    pub path: Arc<str>,
    /// The file itself, as it was before anything was filled in.
    pub text: Option<Arc<str>>,
    /// Files it may take parts from: the named templates of its chart.
    pub parts: Option<Arc<[TemplateFile]>>,
    /// The position of the document among those of its kind in the file.
    pub turn: Option<DocumentTurn>,
}

/// The place of a document among those of its kind, hooks apart, that one file gave, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DocumentTurn {
    /// From 0.
    pub number: usize,
    pub of: usize,
}

impl DocumentOrigin {
    pub fn new(path: impl Into<Arc<str>>) -> Self {
        Self { path: path.into(), ..Self::default() }
    }

    pub fn with_text(path: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> Self {
        Self { path: path.into(), text: Some(text.into()), ..Self::default() }
    }

    /// The line about `word` in the document that looks most like the object's, or in a part it is made of.
    ///
    /// A template is not what came out of it, so this looks for what survives: the kind, the name, the word.
    pub fn locate_word(&self, object: &Value, word: &str) -> Location {
        self.find_word(object, word).0
    }

    /// The location of the `nth` occurrence of an object that is written more than once.
    pub fn locate_occurrence(&self, object: &Value, nth: usize) -> Location {
        let Some(text) = self.text.as_deref() else { return Location::file(Arc::clone(&self.path)) };
        let found = score_documents(text, object, "");
        let lines: Vec<u32> = found
            .iter()
            .filter(|(likeness, _)| likeness.kind && likeness.named > NameMatch::Otherwise)
            .map(|(_, line)| *line)
            .collect();
        // Several objects may come from one document.
        match lines.get(nth).or(lines.last()) {
            Some(line) => location_on_line(&self.path, text, *line, ""),
            None => self.locate_word(object, ""),
        }
    }

    /// Puts a problem where it belongs.
    pub fn place_problem(&self, object: &Value, word: &str, problem: Problem) -> Problem {
        if self.path.is_empty() {
            return problem;
        }
        match self.find_word(object, word) {
            (at, Some(text)) => problem.in_text(at, text),
            (at, None) => problem.at(at),
        }
    }

    /// Puts a problem where an object stands for the `nth` time.
    pub fn place_at_occurrence(&self, object: &Value, nth: usize, problem: Problem) -> Problem {
        if self.path.is_empty() {
            return problem;
        }
        let at = self.locate_occurrence(object, nth);
        match &self.text {
            Some(text) => problem.in_text(at, text),
            None => problem.at(at),
        }
    }

    /// The document of a file that gave one object for each of its kind: they are in the same order.
    fn at_its_turn(&self, found: &[(DocumentLikeness, u32)]) -> Option<(DocumentLikeness, u32)> {
        let DocumentTurn { number, of } = self.turn?;
        let own: Vec<_> = found.iter().filter(|(likeness, _)| likeness.kind).collect();
        let alike: Vec<_> = own.iter().filter(|(likeness, _)| likeness.same_role).copied().collect();
        let own = if alike.len() == of { alike } else { own };
        let (likeness, line) = **own.get(number).filter(|_| own.len() == of)?;
        likeness.is_possible.then_some((likeness, line))
    }

    /// The place of a word, and the text it is in.
    fn find_word(&self, object: &Value, word: &str) -> (Location, Option<&str>) {
        let Some(text) = self.text.as_deref() else {
            return (Location::file(Arc::clone(&self.path)), None);
        };
        let found = score_documents(text, object, word);
        let best = self.at_its_turn(&found).or_else(|| {
            // Of equals the first.
            found.into_iter().reduce(|best, next| if next.0 > best.0 { next } else { best })
        });
        let has_word = word.is_empty() || best.as_ref().is_some_and(|(likeness, _)| likeness.word);
        if !has_word {
            for (path, part) in self.parts.iter().flat_map(|parts| parts.iter()) {
                let line = (1..).zip(part.lines()).find(|(_, content)| content.contains(word));
                if let Some((line, _)) = line {
                    return (location_on_line(path, part, line, word), Some(part));
                }
            }
        }
        match best {
            Some((_, line)) => (location_on_line(&self.path, text, line, word), Some(text)),
            None => (Location::file(Arc::clone(&self.path)), Some(text)),
        }
    }
}

/// A place on a line: where the word begins, or the first that is not blank.
fn location_on_line(path: &Arc<str>, text: &str, line: u32, word: &str) -> Location {
    let column = text.lines().nth(line as usize - 1).map_or(1, |content| {
        let found = if word.is_empty() { None } else { content.find(word) };
        found.unwrap_or(content.len() - content.trim_start().len()) as u32 + 1
    });
    Location::new(Arc::clone(path), line, column)
}

/// The likelihood that a document is that of an object of some name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum NameMatch {
    /// It has other names.
    Otherwise,
    /// It says nothing, or a template says it that fits.
    #[default]
    Perhaps,
    Exactly,
}

/// The likeness of a document and an object. Earlier fields count more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct DocumentLikeness {
    kind: bool,
    is_possible: bool,
    word: bool,
    named: NameMatch,
    /// Both are hooks, or neither is.
    same_role: bool,
    /// The number of lines without templating that came out unchanged, less those that did not.
    lines: i64,
}

/// The likeness of each document of a text and an object, with the line to point at.
fn score_documents(text: &str, object: &Value, word: &str) -> Vec<(DocumentLikeness, u32)> {
    #[derive(Default)]
    struct Document {
        kind: Option<u32>,
        names: Option<NameMatch>,
        word: Option<u32>,
        lines: i64,
        hook: bool,
    }
    let rendered = slipway_yaml::to_string(object).unwrap_or_default();
    let is_hook = object::annotation(object, HOOK).is_some();
    let rendered: HashSet<String> = rendered.lines().map(plain_line).collect();
    let (kind, name) = (object::kind(object).unwrap_or_default(), object::name(object).unwrap_or_default());
    let said = |content: &str, key: &str| -> Option<String> {
        content.strip_prefix(key).map(|rest| rest.trim().trim_matches(['"', '\'']).to_owned())
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
        document.hook |= content.contains(HOOK);
        let is_literal = !content.contains("{{") && !content.starts_with('#') && content.contains(": ");
        if is_literal {
            document.lines += if rendered.contains(&plain_line(content)) { 1 } else { -1 };
        }
        if document.kind.is_none() && said(content, "kind:").is_some_and(|said| said == kind) {
            document.kind = Some(number);
        }
        if let Some(said) = said(content, "name:") {
            document.names = document.names.max(Some(match_name(&said, name)));
        }
    }
    let likeness = |Document { kind, names, word, lines, hook }| {
        let named = names.unwrap_or_default();
        let (is_possible, same_role) = (named > NameMatch::Otherwise, hook == is_hook);
        let likeness = DocumentLikeness {
            kind: kind.is_some(),
            is_possible,
            word: word.is_some(),
            named,
            same_role,
            lines,
        };
        Some((likeness, word.or(kind)?))
    };
    documents.into_iter().filter_map(likeness).collect()
}

/// A line without what writers of YAML may choose: where it begins, and quotes.
fn plain_line(line: &str) -> String {
    line.trim().trim_start_matches("- ").replace(['"', '\''], "")
}

/// Compares a name as a template writes it with a rendered name.
fn match_name(said: &str, name: &str) -> NameMatch {
    match (said.find("{{"), said.rfind("}}")) {
        (Some(start), Some(end)) if start < end => {
            let fits = name.starts_with(&said[..start]) && name.ends_with(&said[end + 2..]);
            if fits { NameMatch::Perhaps } else { NameMatch::Otherwise }
        }
        _ if said == name => NameMatch::Exactly,
        _ => NameMatch::Otherwise,
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
        let origin = DocumentOrigin::with_text("c/templates/x.yaml", text);
        let service = json!({"kind": "Service", "metadata": {"name": "web"}});
        assert_eq!(origin.locate_word(&service, "werf.io/weight").to_string(), "c/templates/x.yaml:11:5");
        let map = json!({"kind": "ConfigMap", "metadata": {"name": "computed"}});
        assert_eq!(origin.locate_word(&map, "werf.io/weight").to_string(), "c/templates/x.yaml:5:5");
        assert_eq!(origin.locate_word(&map, "").to_string(), "c/templates/x.yaml:1:1");
        // What is not in it is not looked for in others.
        let text = "kind: Service\nmetadata:\n  name: web\n---\nkind: ConfigMap\nspec: {}\n";
        let origin = DocumentOrigin::with_text("x.yaml", text);
        assert_eq!(origin.locate_word(&service, "spec:").to_string(), "x.yaml:1:1");
        let text = "kind: Service\n---\nkind: Service\n";
        let origin = DocumentOrigin::with_text("x.yaml", text);
        let lines = [0, 1, 2].map(|nth| origin.locate_occurrence(&service, nth).to_string());
        assert_eq!(lines, ["x.yaml:1:1", "x.yaml:3:1", "x.yaml:3:1"]);
    }

    #[test]
    fn the_second_document_of_a_kind_is_found_by_its_turn_or_its_lines() {
        let document = |image: &str| {
            format!(
                "kind: Deployment\nmetadata:\n  name: {{{{ include \"name\" . }}}}\nspec:\n  image: {image}\n"
            )
        };
        let text = format!("{}---\n{}", document("{{ .a }}"), document("{{ .b }}"));
        let object = json!({"kind": "Deployment", "metadata": {"name": "x"}, "spec": {"image": "no"}});
        let with = |text: &str, number, of| DocumentOrigin {
            turn: Some(DocumentTurn { number, of }),
            ..DocumentOrigin::with_text("x.yaml", text)
        };
        assert_eq!(with(&text, 0, 2).locate_word(&object, "image:").to_string(), "x.yaml:5:3");
        assert_eq!(with(&text, 1, 2).locate_word(&object, "image:").to_string(), "x.yaml:11:3");
        // One of them is not there: what it says itself decides.
        let text = format!("{}---\n{}", document("yes"), document("no"));
        assert_eq!(with(&text, 0, 1).locate_word(&object, "image:").to_string(), "x.yaml:11:3");
        // Hooks are counted apart.
        let hook = "kind: Deployment\nmetadata:\n  annotations: {helm.sh/hook: test}\n---\n";
        let text = format!("{}---\n{hook}{}", document("{{ .a }}"), document("{{ .b }}"));
        assert_eq!(with(&text, 1, 2).locate_word(&object, "image:").to_string(), "x.yaml:15:3");
    }

    #[test]
    fn names_that_templates_make_are_told_apart() {
        let text = "kind: ConfigMap\nmetadata:\n  name: cm-{{ $n }}\n  annotations:\n    a/b: x\n---\n\
                    kind: ConfigMap\nmetadata:\n  name: cm-one\n---\n\
                    kind: ConfigMap\nmetadata:\n  name: {{ .y }}-late\n";
        let origin = DocumentOrigin::with_text("x.yaml", text);
        let map = |name: &str| json!({"kind": "ConfigMap", "metadata": {"name": name}});
        assert_eq!(origin.locate_word(&map("cm-one"), "").to_string(), "x.yaml:7:1");
        assert_eq!(
            origin.locate_word(&map("cm-one"), "a/b").to_string(),
            "x.yaml:5:5",
            "only there it can be"
        );
        assert_eq!(origin.locate_word(&map("it-late"), "").to_string(), "x.yaml:11:1");
        let both = [0, 1].map(|nth| origin.locate_occurrence(&map("cm-one"), nth).to_string());
        assert_eq!(both, ["x.yaml:1:1", "x.yaml:7:1"]);
    }

    #[test]
    fn a_word_of_a_named_template_is_found_there() {
        let parts: [TemplateFile; 2] = [
            ("c/templates/_a.tpl".into(), "{{- define \"a\" }}\n{{- end }}\n".into()),
            ("c/templates/_b.tpl".into(), "{{- define \"b\" }}\na/b: x\n{{- end }}\n".into()),
        ];
        let text = "kind: ConfigMap\nmetadata:\n  name: one\n  annotations: {{ include \"b\" . }}\n";
        let origin = DocumentOrigin {
            parts: Some(parts.into()),
            ..DocumentOrigin::with_text("c/templates/x.yaml", text)
        };
        let map = json!({"kind": "ConfigMap", "metadata": {"name": "one"}});
        assert_eq!(origin.locate_word(&map, "a/b").to_string(), "c/templates/_b.tpl:2:1");
        let told = origin.place_problem(&map, "a/b", Problem::error("wrong"));
        assert_eq!(told.excerpt.as_deref(), Some("a/b: x"));
        assert_eq!(origin.locate_word(&map, "nowhere").to_string(), "c/templates/x.yaml:1:1");
    }
}
