//! The data of every command with `-o json`: one table of all commands, and the JSON Schema made of it.
//!
//! Definitions come from the types that are printed, so that they cannot lag behind. A command that is not in the table fails a
//! test, and so does one whose output does not keep to its definition. Pages are made by debug builds, and release builds do
//! without this table and the code that makes a schema of every printed type.

use std::fmt::Write as _;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};
use slipway_chart::deps::DependencyStatus;
use slipway_chart::net::{PushedArtifact, PushedChart};
use slipway_cluster::helm::Release;
use slipway_controller::doctor::Finding;
use slipway_event::Record;
use slipway_journal::RunEvent;
use slipway_package::{Explanation, PackageInfo, PatchInfo, TouchedField};
use slipway_problem::Problem;
use slipway_promotion::act::BundlePreview;
use slipway_promotion::view::{
    ArtifactDifference, BundleOverview, EnvironmentStanding, GateOverview, HistoryEntry, PipelineOverview,
    PipelineStanding, PromotionDiagram,
};
use slipway_rehearsal::PipelineTimeline;
use slipway_release::ReleaseReport;
use slipway_release::inspect::{ObjectDifference, ReleaseRow};
use slipway_release::logs::LogLine;
use slipway_release::show::{ChangeView, PlanView};
use slipway_runbook::plan::Status;
use slipway_runbook::{RunReport, RunbookPlan};
use slipway_sandbox::clone::CloneReport;
use slipway_secrets::AuditLine;
use slipway_stack::record::ListedRun;
use slipway_unit::{BundleReport, UnitDifference, UnitPlan, UnitSummary, VerifyReport};

use super::{
    audit, bundle, chart, config, gate, graph, lint, package, pipeline, release, render, repo, run, sandbox,
    secrets, stack, unit,
};

type MakeSchema = fn(&mut SchemaGenerator) -> Schema;

/// The form of what a command prints with `-o json`.
#[derive(Clone, Copy)]
enum OutputForm {
    /// One document.
    Document(MakeSchema),
    /// One document a line, as they come.
    Lines(MakeSchema),
    /// Text in any form, for this reason.
    Text(&'static str),
    /// Nothing.
    Nothing,
}

use OutputForm::{Document, Lines, Nothing, Text};

/// Manifests of Kubernetes.
const MANIFESTS: &str = "prints manifests, which are YAML for every reader";
/// Scripts and manuals.
const OTHER_PROGRAM: &str = "prints text for another program";

/// Every command by its words, in the order of the command tree. A word behind a command is its first argument.
const OUTPUTS: &[(&str, OutputForm)] = &[
    ("render", Text(MANIFESTS)),
    ("render --explain", Document(of::<Vec<render::ExplanationView>>)),
    ("plan", Document(of::<PlanView>)),
    ("apply", Document(either::<ReleaseReport, PlanView>)),
    ("rollback", Document(either::<ReleaseReport, PlanView>)),
    ("delete", Document(either::<ReleaseReport, PlanView>)),
    ("list", Document(of::<Vec<ReleaseRow>>)),
    ("status", Document(of::<release::status::StatusView>)),
    ("history", Document(of::<Vec<ReleaseRow>>)),
    ("get values", Document(of::<Map<String, Value>>)),
    ("get metadata", Document(of::<release::get::ReleaseMetadata<'_>>)),
    ("get all", Document(of::<Release>)),
    ("get manifest", Text(MANIFESTS)),
    ("get hooks", Text(MANIFESTS)),
    ("get notes", Text("prints the notes as they are")),
    ("diff", Document(either::<Vec<ChangeView>, Vec<ObjectDifference>>)),
    ("logs", Lines(of::<LogLine>)),
    ("test", Document(of::<ReleaseReport>)),
    ("lint", Document(of::<Vec<lint::LintView>>)),
    ("chart create", Document(of::<chart::WrittenChart>)),
    ("chart show", Text("prints files of the chart as they are")),
    ("chart package", Document(of::<chart::WrittenChart>)),
    ("chart verify", Document(of::<chart::verify::VerifiedChart>)),
    ("chart pull", Document(of::<Vec<chart::fetch::PulledChart>>)),
    ("chart push", Document(of::<PushedChart>)),
    ("chart search repo", Document(of::<Vec<chart::fetch::ChartHit<'_>>>)),
    ("chart registry login", Nothing),
    ("chart registry logout", Nothing),
    ("chart secret key create", Text("prints the key")),
    ("chart secret key rotate", Document(of::<chart::secret::RotatedFiles>)),
    ("chart secret values encrypt", Text("prints the file")),
    ("chart secret values decrypt", Text("prints the file")),
    ("chart secret values edit", Nothing),
    ("chart secret file encrypt", Text("prints the file")),
    ("chart secret file decrypt", Text("prints the file")),
    ("chart secret file edit", Nothing),
    ("chart deps list", Document(of::<Vec<DependencyStatus>>)),
    ("chart deps update", Text("prints Helm's words as it goes on")),
    ("chart deps build", Text("prints Helm's words as it goes on")),
    ("repo add", Document(of::<repo::AddedRepository<'_>>)),
    ("repo list", Document(of::<Vec<repo::RepositoryRow<'_>>>)),
    ("repo remove", Document(of::<repo::RemovedRepositories<'_>>)),
    ("repo update", Document(of::<Vec<repo::UpdatedRepository<'_>>>)),
    ("repo index", Nothing),
    ("package build", Document(of::<ObjectList>)),
    ("package validate", Document(of::<Vec<Problem>>)),
    ("package schema", Document(of::<Map<String, Value>>)),
    ("package schema generate", Document(of::<Map<String, Value>>)),
    ("package info", Document(of::<PackageInfo>)),
    ("package patches", Document(of::<Vec<PatchInfo>>)),
    ("package patches list", Document(either::<Vec<PatchInfo>, Vec<(String, String, String)>>)),
    ("package params", Document(of::<Vec<package::ParamRow>>)),
    ("package trace", Document(of::<Vec<TouchedField>>)),
    ("package explain", Document(of::<Explanation>)),
    ("package test", Document(of::<Vec<package::TestRow>>)),
    ("package diff", Document(of::<package::diff::PackageDifference>)),
    ("package init", Nothing),
    ("kustomize build", Text(MANIFESTS)),
    ("kustomize edit set image", Nothing),
    ("kustomize edit set namespace", Nothing),
    ("kustomize edit add resource", Nothing),
    ("run validate", Document(of::<run::validate::RunbookValidation<'_>>)),
    ("run plan", Document(of::<RunbookPlan>)),
    ("run diff", Document(of::<RunbookPlan>)),
    ("run apply", Document(of::<RunReport>)),
    ("run destroy", Document(either::<RunReport, RunbookPlan>)),
    ("run status", Document(of::<Status>)),
    ("run graph", Document(of::<run::graph::RunbookGraph>)),
    ("run schema", Document(of::<Map<String, Value>>)),
    ("stack", Document(either::<stack::plan::StackPlanOutput<'_>, stack::plan::SelectionReasons<'_>>)),
    ("stack plan", Document(either::<stack::plan::StackPlanOutput<'_>, stack::plan::SelectionReasons<'_>>)),
    ("stack apply", Lines(stack_run)),
    ("stack delete", Lines(stack_run)),
    ("stack graph", Document(of::<DrawnGraph>)),
    ("stack explain", Document(of::<stack::ReleaseExplanation<'_>>)),
    ("stack status", Document(of::<stack::runs::StackRunView<'_>>)),
    ("stack status --follow", Lines(of::<RunEvent>)),
    ("stack runs", Document(of::<Vec<ListedRun>>)),
    ("stack runs prune", Document(of::<stack::runs::PrunedRuns<'_>>)),
    ("unit bundle", Document(of::<BundleReport>)),
    ("unit inspect", Document(of::<UnitSummary>)),
    ("unit diff", Document(of::<Vec<UnitDifference>>)),
    ("unit plan", Document(of::<UnitPlan>)),
    ("unit apply", Document(of::<unit::apply::UnitApplyView<'_>>)),
    ("unit promote", Document(of::<unit::apply::UnitApplyView<'_>>)),
    ("unit verify", Document(of::<VerifyReport>)),
    ("unit resume", Document(of::<unit::apply::UnitApplyView<'_>>)),
    ("unit abort", Document(of::<unit::resume::AbortedRollout>)),
    ("unit rollback", Document(of::<ReleaseReport>)),
    ("unit replay", Document(of::<Vec<Record>>)),
    ("unit sign", Document(of::<unit::sign::SignedUnit>)),
    ("unit generate-key", Document(of::<unit::sign::GeneratedKey>)),
    ("unit push", Document(of::<PushedArtifact>)),
    ("unit pull", Document(of::<unit::transfer::PulledUnit>)),
    ("unit export", Document(of::<unit::export::ExportView<'_>>)),
    ("unit merge-ledger", Document(of::<unit::ledger::MergedEntries>)),
    ("pipeline list", Document(of::<Vec<PipelineOverview>>)),
    ("pipeline show", Document(of::<pipeline::show::Shown>)),
    ("pipeline explain", Document(either::<PipelineStanding, EnvironmentStanding>)),
    ("pipeline history", Document(of::<Vec<HistoryEntry>>)),
    ("pipeline diff", Document(of::<Vec<ArtifactDifference>>)),
    ("pipeline graph", Document(of::<PromotionDiagram>)),
    ("pipeline validate", Document(of::<pipeline::validate::PromotionFileCounts>)),
    ("pipeline promote", Document(of::<pipeline::act::PromotionOutcome<'_>>)),
    ("pipeline rollback", Document(of::<pipeline::act::RollbackView<'_>>)),
    ("pipeline pause", Document(of::<pipeline::act::PauseView<'_>>)),
    ("pipeline resume", Document(of::<pipeline::act::PauseView<'_>>)),
    ("pipeline retry", Document(of::<Vec<pipeline::act::RetriedStep>>)),
    ("pipeline approve", Document(of::<pipeline::act::ApprovedBundle<'_>>)),
    ("pipeline init", Document(either::<pipeline::init::CreatedPipeline<'_>, KubernetesObject>)),
    ("pipeline rehearse", Document(of::<PipelineTimeline>)),
    ("pipeline demo", Nothing),
    ("bundle create", Document(either::<bundle::create::CreatedBundle<'_>, BundlePreview>)),
    ("bundle list", Document(of::<Vec<BundleOverview>>)),
    ("bundle show", Document(of::<bundle::list::BundleView<'_>>)),
    ("bundle wait", Document(of::<bundle::wait::AwaitedBundle<'_>>)),
    ("bundle delete", Document(of::<bundle::list::DeletedBundle<'_>>)),
    ("gate list", Document(of::<Vec<GateOverview>>)),
    ("gate explain", Document(of::<gate::list::GateExplanation<'_>>)),
    ("gate test", Document(of::<gate::check::GateTestReport<'_>>)),
    ("gate simulate", Document(either::<gate::simulate::SimulationView, Vec<gate::simulate::ReplayedView>>)),
    ("gate override", Document(of::<gate::list::OverriddenGate<'_>>)),
    ("secrets test", Document(of::<Vec<secrets::test::Row>>)),
    ("secrets list", Document(of::<Vec<secrets::list::Row>>)),
    ("secrets discover", Document(of::<Vec<secrets::discover::Row>>)),
    ("secrets login", Document(of::<secrets::login::Row>)),
    ("secrets logout", Document(of::<secrets::login::LogoutRow>)),
    ("secrets policy check", Document(of::<secrets::policy::AllowedReferences>)),
    ("secrets audit", Document(of::<Vec<AuditLine>>)),
    ("controller run", Nothing),
    ("controller install", Document(either::<ReleaseReport, PlanView>)),
    ("controller uninstall", Document(either::<ReleaseReport, PlanView>)),
    ("agent", Nothing),
    ("audit summary", Document(of::<Vec<audit::AuditCount>>)),
    ("audit verify", Document(of::<Vec<audit::AuditChain<'_>>>)),
    ("audit timeline", Document(of::<Vec<audit::AuditRow<'_>>>)),
    ("doctor", Document(of::<Vec<Finding>>)),
    ("sandbox up", Nothing),
    ("sandbox up --detach", Document(of::<sandbox::up::SandboxStatus>)),
    ("sandbox down", Nothing),
    ("sandbox status", Document(of::<sandbox::up::SandboxStatus>)),
    ("sandbox kubeconfig", Text("prints a kubeconfig, which is YAML for every reader")),
    ("sandbox reset", Nothing),
    ("sandbox save", Nothing),
    ("sandbox load", Nothing),
    ("sandbox clone", Document(of::<CloneReport>)),
    ("graph", Document(either::<graph::WavesView<'_>, DrawnGraph>)),
    ("config", Document(of::<Vec<config::Row>>)),
    ("completions", Text(OTHER_PROGRAM)),
    ("man", Text(OTHER_PROGRAM)),
    ("reference", Text(OTHER_PROGRAM)),
];

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

fn either<A: JsonSchema, B: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    schema(json!({"anyOf": [generator.subschema_for::<A>(), generator.subschema_for::<B>()]}))
}

/// The lines of a run, then its summary; with `--plan-only` or `--dry-run` the plan instead.
fn stack_run(generator: &mut SchemaGenerator) -> Schema {
    schema(json!({"anyOf": [
        generator.subschema_for::<RunEvent>(),
        generator.subschema_for::<stack::launch::StackRunSummary<'_>>(),
        generator.subschema_for::<stack::plan::StackPlanOutput<'_>>(),
    ]}))
}

/// A schema that is written down; one that is no object says nothing.
fn schema(value: Value) -> Schema {
    Schema::try_from(value).unwrap_or_default()
}

/// A `List` of Kubernetes objects.
struct ObjectList;

impl JsonSchema for ObjectList {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ObjectList".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        schema(json!({
            "description": "A list of Kubernetes objects",
            "type": "object",
            "required": ["apiVersion", "kind", "items"],
            "properties": {
                "apiVersion": {"const": "v1"},
                "kind": {"const": "List"},
                "items": {"type": "array", "items": generator.subschema_for::<KubernetesObject>()},
            },
        }))
    }
}

/// An object of any kind.
struct KubernetesObject;

impl JsonSchema for KubernetesObject {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "KubernetesObject".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schema(json!({
            "description": "An object of Kubernetes, as its kind defines it",
            "type": "object",
            "required": ["apiVersion", "kind"],
            "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}},
            "additionalProperties": true,
        }))
    }
}

/// A graph that is drawn for programs: what [`slipway_graph::Drawing::json`] makes.
struct DrawnGraph;

impl JsonSchema for DrawnGraph {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "DrawnGraph".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let need = json!({
            "type": "object", "required": ["id"],
            "properties": {"id": {"type": "string"}, "style": {"type": "string"}},
        });
        let node = json!({
            "type": "object", "required": ["id", "wave", "needs"],
            "properties": {
                "id": {"type": "string"}, "label": {"type": "string"}, "group": {"type": "string"},
                "wave": {"type": "integer", "minimum": 0}, "needs": {"type": "array", "items": need},
            },
        });
        schema(json!({
            "description": "The nodes of a graph and what each needs",
            "type": "object", "required": ["version", "nodes"],
            "properties": {"version": {"const": 1}, "nodes": {"type": "array", "items": node}},
        }))
    }
}

/// The name of a command's definition: `stack plan` has `stack-plan`.
fn definition_name(command: &str) -> String {
    command.replace("--", "").replace(' ', "-")
}

/// The schema: `$defs` has a definition for each command, and those of their parts.
pub fn output_schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut definitions = Map::new();
    for (command, form) in OUTPUTS {
        let (make, about) = match form {
            Document(make) => (make, "Printed"),
            Lines(make) => (make, "One line of what is printed"),
            Text(_) | Nothing => continue,
        };
        let mut made = make(&mut generator);
        made.insert("title".to_owned(), format!("slipway {command}").into());
        made.insert(
            "description".to_owned(),
            format!("{about} by `slipway {command}` with `-o json`").into(),
        );
        definitions.insert(definition_name(command), made.to_value());
    }
    definitions.extend(generator.take_definitions(true));
    definitions.values_mut().for_each(|definition| close(definition, Nesting::Whole));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What commands of slipway print with -o json",
        "$defs": definitions,
    })
}

/// Says whether a schema speaks of all properties of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nesting {
    Whole,
    /// Beside it stand properties of the same value.
    Part,
}

/// Lets no object have properties that nobody speaks of, unless its schema says so.
fn close(schema: &mut Value, nesting: Nesting) {
    const PARTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
    let Some(keys) = schema.as_object_mut() else { return };
    let is_composed = keys.contains_key("$ref") || PARTS.iter().any(|part| keys.contains_key(*part));
    let has_properties = keys.contains_key("properties");
    let is_open = keys.contains_key("additionalProperties") || keys.contains_key("unevaluatedProperties");
    if has_properties && !is_open && nesting == Nesting::Whole {
        let word = if is_composed { "unevaluatedProperties" } else { "additionalProperties" };
        keys.insert(word.to_owned(), false.into());
    }
    let nesting = if has_properties { Nesting::Part } else { nesting };
    for part in PARTS {
        let parts = keys.get_mut(part).and_then(Value::as_array_mut);
        parts.into_iter().flatten().for_each(|part| close(part, nesting));
    }
    for inner in ["items", "additionalProperties", "not"] {
        keys.get_mut(inner).into_iter().for_each(|inner| close(inner, Nesting::Whole));
    }
    let tuple = keys.get_mut("prefixItems").and_then(Value::as_array_mut);
    tuple.into_iter().flatten().for_each(|inner| close(inner, Nesting::Whole));
    let properties = keys.get_mut("properties").and_then(Value::as_object_mut);
    properties.into_iter().flatten().for_each(|(_, inner)| close(inner, Nesting::Whole));
}

/// The table as Markdown: every command and its definition.
pub fn markdown() -> String {
    let mut text = String::from(
        "# Data of commands\n\n<!-- Made by `cargo xtask docs` from the table of commands; do not edit. -->\n\n\
         `-o json` prints data on standard output, `-o yaml` the same as YAML. [output.schema.json](output.schema.json) has a definition for each\n\
         command, named by its words: `slipway stack plan` has `#/$defs/stack-plan`. A failure is an object on standard error instead\n\
         ([failure.schema.json](failure.schema.json), [exit codes](exit-codes.md)).\n\n\
         | command | data with `-o json` |\n| --- | --- |\n",
    );
    for (command, form) in OUTPUTS {
        let data = match form {
            Document(_) => format!("`{}`", definition_name(command)),
            Lines(_) => format!("`{}`, one a line", definition_name(command)),
            Text(why) => format!("none: {why}"),
            Nothing => "nothing on standard output".to_owned(),
        };
        if *command != "reference" {
            let _ = writeln!(text, "| `{command}` | {data} |");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory as _};

    use super::*;

    /// The words of every command that can be carried out.
    fn commands(command: &Command, words: &str, found: &mut Vec<String>) {
        for child in command.get_subcommands() {
            let words = format!("{words}{}", child.get_name());
            if !child.has_subcommands() || !child.is_subcommand_required_set() {
                found.push(words.clone());
            }
            commands(child, &format!("{words} "), found);
        }
    }

    #[test]
    fn every_command_says_what_it_prints() {
        let mut tree = crate::cli::Cli::command();
        tree.build();
        let mut all = Vec::new();
        commands(&tree, "", &mut all);
        let begins = |entry: &str, words: &str| {
            entry == words || entry.strip_prefix(words).is_some_and(|rest| rest.starts_with(' '))
        };
        let missing: Vec<&String> =
            all.iter().filter(|words| !OUTPUTS.iter().any(|(entry, _)| begins(entry, words))).collect();
        assert!(missing.is_empty(), "without an entry: {missing:?}");
        let unknown: Vec<&str> = OUTPUTS
            .iter()
            .map(|(entry, _)| *entry)
            .filter(|entry| !all.iter().any(|words| begins(entry, words)))
            .collect();
        assert!(unknown.is_empty(), "no command: {unknown:?}");
    }

    #[test]
    fn every_definition_compiles_and_has_one_name() {
        let schema = output_schema();
        let mut compiler = boon::Compiler::new();
        compiler.add_resource("output.json", schema.clone()).unwrap();
        let mut schemas = boon::Schemas::new();
        for name in schema["$defs"].as_object().unwrap().keys() {
            compiler.compile(&format!("output.json#/$defs/{name}"), &mut schemas).unwrap();
            assert!(!name.ends_with(|last: char| last.is_ascii_digit()), "two types are named {name}");
        }
    }
}
