//! From the text of a file to a document, or to everything that is wrong with it.

use slipway_event::Redactor;
use slipway_problem::{Location, Problem, ProblemSeverity, Problems};
use slipway_yaml::{NodeValue, ProblemCodes, YamlNode, YamlReader};

use crate::credentials;
use crate::decode;
use crate::diagnostic::{Diagnostic, Diagnostics, Findings};
use crate::lint;
use crate::model::Document;
use crate::text::{DollarEscape, Substituted, substitute};
use crate::variables::Variables;

/// The longest text that is read.
const LONGEST: usize = 8 << 20;

/// Settings of reading a document.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadOptions {
    pub escape: DollarEscape,
    /// A value must not change the structure of the document.
    pub strict_variables: bool,
    pub warnings_as_errors: bool,
}

/// A document that can be run.
#[derive(Clone, Debug)]
pub struct LoadedDocument {
    pub document: Document,
    pub warnings: Diagnostics,
    pub text: Substituted,
}

/// Reads a document. `file` names it in messages. Secret variables and what pipelines make of them are
/// registered with the redactor, and no finding shows one.
pub fn load(
    file: &str,
    source: &str,
    variables: &Variables,
    options: LoadOptions,
    redactor: &Redactor,
) -> Result<LoadedDocument, Diagnostics> {
    let source = source.strip_prefix('\u{feff}').unwrap_or(source);
    let mut problems = Problems::new();
    if source.len() > LONGEST {
        let message = format!("the file has {} bytes, {LONGEST} are allowed", source.len());
        problems.push(Problem::error(message).at(Location::file(file)).code("E002"));
        return Err(Diagnostics::from(problems));
    }
    let text = substitute(file, source, variables, options.escape, &mut problems);
    for secret in variables.secrets().chain(text.derived_secrets.iter().map(String::as_str)) {
        redactor.register(secret);
    }
    // Credentials are secret whether or not they came from a secret variable, and also in a document that
    // cannot be read.
    for text in [source, &text.text] {
        for credential in credentials::in_addresses(text) {
            redactor.register(credential);
        }
    }
    let findings = Findings::new(&text);
    findings.take(problems);
    warn_about_references(&findings);

    let mut syntax = Problems::new();
    let documents = reader().gather_documents(&text.text, file, &mut syntax);
    findings.take_substituted(syntax);
    let mut documents = documents.iter().filter(|node| !node.is_null());
    let root = documents.next();
    if let Some(second) = documents.next() {
        let problem = Problem::error("a file holds exactly one document");
        findings.add(second, &Default::default(), "E004", problem);
    }
    let document = match root {
        Some(root) => {
            custom_tags(&findings, root);
            if options.strict_variables {
                same_structure(&findings, root);
            }
            let document = decode::document(root, variables, &findings);
            if let (Some(document), false) = (&document, findings.has_errors()) {
                lint::look(document, root, variables, &findings);
            }
            document
        }
        None => {
            if !findings.has_errors() {
                let problem = Problem::error("the document is empty").at(Location::file(file)).code("E005");
                let hint = "start with `apiVersion: khook.io/v1` and `kind: Khook`";
                findings.take(Problems::from(problem.hint(hint)));
            }
            None
        }
    };
    for step in document.iter().flat_map(|document| &document.steps) {
        if let Some(password) = step.action.as_step().inputs().password() {
            redactor.register(password);
        }
    }
    let mut found = findings.finish();
    found.redact(redactor);
    let passwords = Redactor::new();
    for password in credentials::passwords(source) {
        passwords.register(password);
    }
    for excerpt in found.iter_mut().filter_map(|found| found.problem.excerpt.as_mut()) {
        passwords.redact_in_place(excerpt);
    }
    if options.warnings_as_errors {
        found.raise_warnings();
    }
    if found.has_errors() {
        return Err(found);
    }
    let Some(document) = document else { return Err(found) };
    Ok(LoadedDocument { document, warnings: found, text })
}

fn reader() -> YamlReader {
    let codes =
        ProblemCodes { syntax: "E003", duplicate: "E006", limit: "E010", value: "E011", aliases: "E003" };
    YamlReader::new().max_depth(100).max_nodes(1_000_000).codes(codes)
}

fn warn_about_references(findings: &Findings<'_>) {
    let text = findings.text();
    let mut warnings = Problems::new();
    for reference in text.references.iter().filter(|reference| reference.in_comment) {
        let place = Location::in_text(text.file.as_str(), &text.source, reference.span.start);
        let message = format!("the reference to `{}` seems to stand in a comment", reference.name);
        warnings.push(Problem::warning(message).code("W010").in_text(place, &text.source));
    }
    findings.take(warnings);
}

/// Tags other than YAML's own mean nothing here.
fn custom_tags(findings: &Findings<'_>, root: &YamlNode) {
    let mut open = vec![root];
    while let Some(node) = open.pop() {
        if let Some(tag) = node.tag()
            && !tag.starts_with("tag:yaml.org,2002:")
            && tag != "!"
        {
            findings.add(
                node,
                &Default::default(),
                "E011",
                Problem::error(format!("the tag `{tag}` is not known")),
            );
        }
        match &node.value {
            NodeValue::Seq(items) => open.extend(items),
            NodeValue::Map(entries) => open.extend(entries.iter().flat_map(|(key, value)| [key, value])),
            _ => {}
        }
    }
}

/// Reads the document once more with something inert in the place of every value: whatever then differs
/// in kind was made by a value.
fn same_structure(findings: &Findings<'_>, root: &YamlNode) {
    let text = findings.text();
    let inert = text.inert();
    let mut problems = Problems::new();
    let Some(other) = reader().gather_one(&inert, "", &mut problems) else { return };
    let mut open = vec![(root, &other)];
    while let Some((given, inert)) = open.pop() {
        let differs = match (&given.value, &inert.value) {
            (NodeValue::Seq(a), NodeValue::Seq(b)) => {
                open.extend(a.iter().zip(b));
                a.len() != b.len()
            }
            (NodeValue::Map(a), NodeValue::Map(b)) => {
                open.extend(a.iter().zip(b.iter()).map(|((_, a), (_, b))| (a, b)));
                a.len() != b.len()
            }
            (NodeValue::Seq(_) | NodeValue::Map(_), _) | (_, NodeValue::Seq(_) | NodeValue::Map(_)) => true,
            _ => false,
        };
        if differs {
            let problem = Problem::error("a variable's value changes the structure of the document");
            let problem = problem.hint("quote the reference, or put it through `toJson`");
            findings.add(given, &Default::default(), "E107", problem);
        }
    }
}

impl From<Problems> for Diagnostics {
    fn from(problems: Problems) -> Self {
        problems
            .into_iter()
            .map(|problem| Diagnostic { problem, path: String::new(), step: None, end: None })
            .collect()
    }
}

impl Diagnostics {
    /// Masks every text of every finding.
    pub(crate) fn redact(&mut self, redactor: &Redactor) {
        for found in self.iter_mut() {
            redactor.redact_in_place(&mut found.path);
            redactor.redact_in_place(&mut found.problem.message);
            let problem = &mut found.problem;
            for text in problem.hint.iter_mut().chain(&mut problem.excerpt).chain(&mut found.step) {
                redactor.redact_in_place(text);
            }
        }
    }

    fn raise_warnings(&mut self) {
        for found in self.iter_mut() {
            if found.problem.severity == ProblemSeverity::Warning {
                found.problem.severity = ProblemSeverity::Error;
            }
        }
    }
}
