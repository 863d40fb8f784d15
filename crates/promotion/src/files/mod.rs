//! Objects of promotion written in files: pipelines, gates, windows, templates and cases of gates.
//!
//! Every problem of a file is reported at once, with its line: what is no YAML, fields a kind does not have (`schema`),
//! values of the wrong type, pipelines that cannot work and gates that do not compile.

mod schema;

use serde_json::Value;
use slipway_problem::{Location, Problem, Problems};
use slipway_yaml::{NodeForm, ScalarStyle, YamlNode};

use crate::gate::{FindingSeverity, GateEvaluator, GateTest, check_gate};
use crate::kinds::{
    Bundle, BundleSpec, ChangeWindow, ChangeWindowSpec, KindSpec, MetricCheckSpec, Pipeline, PipelineSpec,
    PolicyGate, PolicyGateSpec, PromotionTemplate, PromotionTemplateSpec, Resource, labels,
};
use crate::validate::validate_pipeline;

/// Everything of promotion that files hold.
#[derive(Clone, Debug, Default)]
pub struct PromotionFiles {
    pub pipelines: Vec<Pipeline>,
    pub bundles: Vec<Bundle>,
    pub gates: Vec<PolicyGate>,
    pub windows: Vec<ChangeWindow>,
    pub templates: Vec<PromotionTemplate>,
    /// Objects as they are written, in order: what is applied.
    pub objects: Vec<Value>,
    /// The cases of gates.
    pub tests: Vec<GateTest>,
    /// What is worth knowing and no mistake.
    pub warnings: Problems,
}

impl PromotionFiles {
    /// Reads the documents of a text and adds them; returns every problem there is.
    pub fn read(&mut self, text: &str, file: &str) -> Result<(), Problems> {
        let documents = slipway_yaml::parse(text, file)?;
        let mut problems = Problems::new();
        for document in documents.iter().filter(|document| !document.to_json().is_null()) {
            self.read_document(document, &mut problems);
        }
        problems.into_result(())
    }

    fn read_document(&mut self, node: &YamlNode, problems: &mut Problems) {
        if node.get("kind").is_none()
            && let Some(tests) = node.get("tests")
        {
            self.tests.extend(
                problems.collect_from(slipway_yaml::from_node::<Vec<GateTest>>(tests)).unwrap_or_default(),
            );
            return;
        }
        let text = |key: &str| node.get(key).and_then(YamlNode::scalar_text).unwrap_or_default().into_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        if api_version != format!("{}/{}", labels::GROUP, labels::VERSION) {
            // Namespaces, Secrets and whatever else stands beside them.
            if kind.is_empty() || api_version.is_empty() {
                let problem = node.problem("this is no object: `apiVersion` and `kind` are missing");
                problems.push(problem.hint("files of promotion hold objects of kardinal.io/v1alpha1"));
            } else {
                self.objects.push(node.to_json());
            }
            return;
        }
        match kind.as_str() {
            PipelineSpec::KIND => {
                if let Some(pipeline) = read_object::<PipelineSpec>(node, problems) {
                    check_pipeline(node, &pipeline, problems);
                    self.pipelines.push(pipeline);
                }
            }
            PolicyGateSpec::KIND => {
                if let Some(gate) = read_object::<PolicyGateSpec>(node, problems) {
                    self.check_gate(node, &gate, problems);
                    self.gates.push(gate);
                }
            }
            BundleSpec::KIND => self.bundles.extend(read_object::<BundleSpec>(node, problems)),
            ChangeWindowSpec::KIND => {
                if let Some(window) = read_object::<ChangeWindowSpec>(node, problems) {
                    for error in crate::window::Window::parse(&window.spec).err().into_iter().flatten() {
                        problems.push(node.get("spec").unwrap_or(node).problem(error.to_string()));
                    }
                    self.windows.push(window);
                }
            }
            PromotionTemplateSpec::KIND => {
                self.templates.extend(read_object::<PromotionTemplateSpec>(node, problems));
            }
            MetricCheckSpec::KIND => drop(read_object::<MetricCheckSpec>(node, problems)),
            other => {
                let known = [
                    PipelineSpec::KIND,
                    BundleSpec::KIND,
                    PolicyGateSpec::KIND,
                    ChangeWindowSpec::KIND,
                    MetricCheckSpec::KIND,
                    PromotionTemplateSpec::KIND,
                ];
                if let Some(nearest) = slipway_problem::nearest_name(other, known) {
                    let at = node.get("kind").unwrap_or(node);
                    problems.push(
                        at.problem(format!("there is no kind `{other}`")).did_you_mean(other, [nearest]),
                    );
                    return;
                }
            }
        }
        self.objects.push(node.to_json());
    }

    /// Checks the expression of a gate; its places become those of the file.
    fn check_gate(&mut self, node: &YamlNode, gate: &PolicyGate, problems: &mut Problems) {
        let at = node.node_at(["spec", "expression"]);
        for finding in check_gate(&GateEvaluator::new(), gate) {
            let place = at.unwrap_or(node);
            let message = format!("PolicyGate/{}: {}", gate.name(), finding.message);
            let mut problem = match finding.severity {
                FindingSeverity::Error => Problem::error(message),
                FindingSeverity::Warning => Problem::warning(message),
            };
            problem = problem.at(expression_location(place, finding.line, finding.column));
            if let Some(hint) = finding.hint {
                problem = problem.hint(hint);
            }
            match finding.severity {
                FindingSeverity::Error => problems.push(problem),
                FindingSeverity::Warning => self.warnings.push(problem),
            }
        }
        if crate::translate::applied_environments(gate).is_empty() && !gate.is_instance() {
            let message = format!("PolicyGate/{} names no environment it applies to", gate.name());
            let problem = node.get("metadata").unwrap_or(node).problem(message);
            problems.push(
                problem.hint("set the label `kardinal.io/applies-to: prod`, or `spec.appliesTo: [prod]`"),
            );
        }
    }
}

/// Reads an object of a kind; every field it does not have is a problem.
fn read_object<S: KindSpec>(node: &YamlNode, problems: &mut Problems) -> Option<Resource<S>> {
    let found = schema::check::<S>(node);
    let is_good = found.is_empty();
    problems.extend(found);
    if node.node_at(["metadata", "name"]).is_none() {
        problems.push(node.get("metadata").unwrap_or(node).problem("`metadata.name` is missing"));
        return None;
    }
    match slipway_yaml::from_node::<Resource<S>>(node) {
        Ok(object) => Some(object),
        // Told already, in the words of the schema.
        Err(_) if !is_good => None,
        Err(found) => {
            problems.extend(found);
            None
        }
    }
}

fn check_pipeline(node: &YamlNode, pipeline: &Pipeline, problems: &mut Problems) {
    for problem in validate_pipeline(&pipeline.spec) {
        let path = problem.field.replace(['[', ']'], ".");
        let parts: Vec<&str> = path.split('.').filter(|part| !part.is_empty()).collect();
        // The innermost part that is written.
        let place = (0..=parts.len()).rev().find_map(|count| node.node_at(parts[..count].iter().copied()));
        problems.push(place.unwrap_or(node).problem(problem.fault.to_string()));
    }
}

/// The place within a file of a place within an expression.
fn expression_location(node: &YamlNode, line: Option<u32>, column: Option<u32>) -> Location {
    let file = node.source().file.clone();
    let (line, column) = (line.unwrap_or(1), column.unwrap_or(1));
    match node.form {
        NodeForm::Scalar(ScalarStyle::Literal | ScalarStyle::Folded) => {
            let text = node.raw().lines().nth(line as usize).unwrap_or_default();
            let indent = text.chars().take_while(|c| *c == ' ').count();
            Location::new(file, node.span.line + line, u32::try_from(indent).unwrap_or(0) + column)
        }
        form => {
            let quote = u32::from(form != NodeForm::Scalar(ScalarStyle::Plain));
            let column = if line == 1 { node.span.column + quote + column - 1 } else { column };
            Location::new(file, node.span.line + line - 1, column)
        }
    }
}
