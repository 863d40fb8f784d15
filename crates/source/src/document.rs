//! Rendered documents: one object each, with how a release keeps it and where it is written.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use slipway_chart::CrdFile;
use slipway_manifest::object;
use slipway_problem::{Location, Problem, Problems};

use crate::origin::{DocumentOrigin, DocumentTurn};

/// The part of a release record an object is kept in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordPart {
    /// Not at all: definitions of `crds/`.
    Aside,
    /// As a hook.
    Hook,
    /// In the manifest.
    Regular,
}

/// One rendered object and where it comes from.
#[derive(Clone, Debug)]
pub struct Document {
    pub object: Value,
    pub origin: DocumentOrigin,
    pub stored: RecordPart,
}

/// Documents read so far, with everything that is wrong with others.
#[derive(Debug, Default)]
pub(crate) struct DocumentReader {
    documents: Vec<Document>,
    problems: Problems,
}

impl DocumentReader {
    /// Reads the text of one document; an empty one is left out.
    pub(crate) fn read_document(&mut self, text: &str, origin: DocumentOrigin, stored: RecordPart) {
        match slipway_yaml::from_str_helm(text) {
            Ok(Value::Null) => {}
            Ok(object) => self.documents.push(Document { object, origin, stored }),
            Err(error) => self.report_problem(Problem::error(error.to_string()), &origin.path),
        }
    }

    /// Reads the definitions of a chart's `crds/`.
    pub(crate) fn read_definitions(&mut self, files: &[CrdFile]) {
        for crd in files {
            let text: Arc<str> = lossy_text(&crd.file.data).into();
            for part in slipway_chart::split_documents(&crd.file.data) {
                let origin = DocumentOrigin::with_text(crd.path.as_str(), Arc::clone(&text));
                self.read_document(&lossy_text(part), origin, RecordPart::Aside);
            }
        }
    }

    /// Notes a problem of a file.
    pub(crate) fn report_problem(&mut self, problem: Problem, path: &Arc<str>) {
        self.problems.push(problem.at(Location::file(Arc::clone(path))));
    }

    /// Gives every document, or every problem.
    pub(crate) fn finish(mut self) -> Result<Vec<Document>, Problems> {
        number_turns(&mut self.documents);
        self.problems.into_result(self.documents)
    }
}

/// Bytes as text; what is not UTF-8 becomes U+FFFD. Most bytes are text, and finding that out is many times faster than
/// looking for what to replace.
pub(crate) fn lossy_text(bytes: &[u8]) -> Cow<'_, str> {
    str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// Notes which of the documents of its kind each is in its file: within a kind and hooks apart they come in the
/// order they are written in.
fn number_turns(documents: &mut [Document]) {
    let key = |document: &Document| {
        let kind = object::kind(&document.object).unwrap_or_default().to_owned();
        (Arc::clone(&document.origin.path), kind, document.stored)
    };
    let mut counts: HashMap<_, usize> = HashMap::new();
    for document in documents.iter() {
        *counts.entry(key(document)).or_default() += 1;
    }
    let mut turns: HashMap<_, usize> = HashMap::new();
    for document in documents {
        let key = key(document);
        let of = counts.get(&key).copied().unwrap_or_default();
        let number = turns.entry(key).or_default();
        document.origin.turn = Some(DocumentTurn { number: *number, of });
        *number += 1;
    }
}
