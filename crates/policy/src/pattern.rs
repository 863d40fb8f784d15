//! Patterns with `*`, which stands for anything.

use globset::{GlobBuilder, GlobMatcher};
use slipway_manifest::{Gvk, ObjectRef};
use slipway_problem::Problems;
use slipway_yaml::{FieldReader, YamlNode};

/// A list of patterns; one has to fit.
#[derive(Clone, Debug, Default)]
pub(crate) struct PatternList(Vec<Pattern>);

/// One pattern with its text.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub(crate) text: String,
    matcher: GlobMatcher,
}

impl Pattern {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let glob = GlobBuilder::new(text).literal_separator(false).build().ok()?;
        Some(Self { text: text.to_owned(), matcher: glob.compile_matcher() })
    }

    pub(crate) fn fits(&self, text: &str) -> bool {
        self.matcher.is_match(text)
    }
}

impl PatternList {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn fits(&self, text: &str) -> bool {
        self.0.iter().any(|pattern| pattern.fits(text))
    }

    /// Compares kinds: `Job` fits any group, `Job.batch` and `*.batch` one of them.
    pub(crate) fn fits_kind(&self, gvk: &Gvk) -> bool {
        let full = format!("{}.{}", gvk.kind, gvk.group);
        self.0.iter().any(|pattern| pattern.fits(&gvk.kind) || pattern.fits(&full))
    }

    /// The patterns as written: `a`, `b`.
    pub(crate) fn shown(&self) -> String {
        let texts: Vec<String> = self.0.iter().map(|pattern| format!("`{}`", pattern.text)).collect();
        texts.join(", ")
    }

    /// Reads a list of patterns.
    pub(crate) fn read(fields: &mut FieldReader<'_, '_>, key: &'static str) -> Self {
        Self(fields.seq(key, |node, problems| read_pattern(node, key, problems)))
    }

    /// The same from texts known to be patterns.
    pub(crate) fn of(texts: &[&str]) -> Self {
        Self(texts.iter().filter_map(|text| Pattern::parse(text)).collect())
    }
}

fn read_pattern(node: &YamlNode, key: &str, problems: &mut Problems) -> Option<Pattern> {
    let pattern = node.as_str().filter(|text| !text.is_empty()).and_then(Pattern::parse);
    if pattern.is_none() {
        let problem = node.problem(format!("`{key}` has an item that is no pattern"));
        problems.push(
            problem.hint("write text; `*` stands for anything, `[` and `{` are written `\\[` and `\\{`"),
        );
    }
    pattern
}

/// A pattern for objects: `Kind/namespace/name`, the namespace empty for objects of the whole cluster.
#[derive(Clone, Debug)]
pub(crate) struct ObjectPattern {
    kind: PatternList,
    namespace: Pattern,
    name: Pattern,
}

impl ObjectPattern {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('/');
        let (kind, namespace, name) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() || kind.is_empty() || name.is_empty() {
            return None;
        }
        Some(Self {
            kind: PatternList(vec![Pattern::parse(kind)?]),
            namespace: Pattern::parse(namespace)?,
            name: Pattern::parse(name)?,
        })
    }

    pub(crate) fn fits(&self, object: &ObjectRef) -> bool {
        self.kind.fits_kind(&object.gvk)
            && self.namespace.fits(object.namespace.as_deref().unwrap_or_default())
            && self.name.fits(&object.name)
    }
}
