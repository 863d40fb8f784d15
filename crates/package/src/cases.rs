//! Tests that live in a package: `tests/*.yaml`, with expectations and golden files.

use serde_json::Value as Json;
use slipway_manifest::ObjectId;
use slipway_problem::{Problem, Problems};
use slipway_yaml::{YamlNode, YamlReader};

use crate::build::{BuildInputs, BuiltObject, PackageBuild, ValuesFile};
use crate::kpatch::{self, StepKind};
use crate::output::{EmitOptions, OutFile};
use crate::package::Package;
use crate::params::SetValue;
use crate::report::{join_words, read_strictly, with_code};

/// One test of a package.
#[derive(Clone, Debug)]
pub struct TestCase {
    pub file: String,
    pub name: String,
    inputs: BuildInputs,
    expect: Option<Json>,
    /// The golden file, relative to the package.
    pub snapshot: Option<String>,
}

/// The outcome of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseResult {
    pub file: String,
    pub name: String,
    /// Differences from what was expected; none: it passed.
    pub failures: Vec<String>,
    /// The golden file as it should be, if it differs or is missing.
    pub update: Option<OutFile>,
}

impl CaseResult {
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }
}

const EXPECT: [&str; 7] = ["resources", "count", "absent", "fields", "patches", "errors", "warnings"];

impl Package {
    /// Reads the tests of the package.
    pub fn cases(&self) -> Result<Vec<TestCase>, Problems> {
        let mut problems = Problems::new();
        let mut cases = Vec::new();
        for path in self.files.below("tests/") {
            let direct = !path["tests/".len()..].contains('/');
            if !direct || !(path.ends_with(".yaml") || path.ends_with(".yml")) {
                continue;
            }
            let Some(text) = self.files.text(path, &mut problems) else { continue };
            match YamlReader::new().max_nodes(100_000).max_depth(100).read(text, path) {
                Ok(documents) => cases.extend(
                    documents
                        .iter()
                        .filter(|node| !node.is_null() && !is_golden(node))
                        .filter_map(|node| read_case(path, node, &mut problems)),
                ),
                Err(found) => problems.extend(with_code(found, "KT001")),
            }
        }
        problems.into_result(cases)
    }

    /// Runs one test.
    pub fn run_case(&self, case: &TestCase) -> CaseResult {
        let validation = self.validate(&case.inputs);
        let mut failures = Vec::new();
        let expect = case.expect.clone().unwrap_or_default();
        let expected_errors: Vec<&str> =
            expect["errors"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
        for code in &expected_errors {
            if !has_code(&validation.problems, code, true) {
                failures.push(format!("expected error {code}, which did not come"));
            }
        }
        for code in expect["warnings"].as_array().into_iter().flatten().filter_map(Json::as_str) {
            if !has_code(&validation.problems, code, false) {
                failures.push(format!("expected warning {code}, which did not come"));
            }
        }
        let mut update = None;
        match &validation.build {
            None if expected_errors.is_empty() => {
                let errors = validation
                    .problems
                    .iter()
                    .filter(|problem| problem.severity == slipway_problem::ProblemSeverity::Error);
                failures.extend(errors.map(|problem| format!("unexpected error: {problem}")));
            }
            None => {}
            Some(build) => {
                if !expected_errors.is_empty() {
                    failures.push("the build succeeded although errors were expected".to_owned());
                }
                check_expectations(build, &expect, &mut failures);
                if let Some(path) = &case.snapshot {
                    update = self.check_snapshot(build, path, &mut failures);
                }
            }
        }
        CaseResult { file: case.file.clone(), name: case.name.clone(), failures, update }
    }

    /// Runs all tests.
    pub fn test(&self) -> Result<Vec<CaseResult>, Problems> {
        Ok(self.cases()?.iter().map(|case| self.run_case(case)).collect())
    }

    fn check_snapshot(
        &self,
        build: &PackageBuild,
        path: &str,
        failures: &mut Vec<String>,
    ) -> Option<OutFile> {
        let text = build.stream(EmitOptions::default());
        let golden = self.files.get(path).map(|bytes| String::from_utf8_lossy(bytes).replace("\r\n", "\n"));
        if golden.as_deref() == Some(text.as_str()) {
            return None;
        }
        match golden {
            None => failures.push(format!("the golden file {path} does not exist; run with --update")),
            Some(golden) => failures.extend(golden_differences(&golden, build, path)),
        }
        Some(OutFile { path: path.to_owned(), text })
    }
}

/// Golden files may stand beside the tests that name them.
fn is_golden(node: &YamlNode) -> bool {
    node.get("apiVersion").is_some() && node.get("kind").is_some()
}

fn has_code(problems: &Problems, code: &str, error: bool) -> bool {
    problems.iter().any(|problem: &Problem| {
        problem.code.as_deref() == Some(code)
            && (problem.severity == slipway_problem::ProblemSeverity::Error) == error
    })
}

/// Differences between a golden file and a build, field by field where it can be read.
fn golden_differences(golden: &str, build: &PackageBuild, path: &str) -> Vec<String> {
    let Ok(documents) = YamlReader::new().max_depth(100).read(golden, path) else {
        return vec![format!("{path} is not YAML")];
    };
    let mut old: Vec<(ObjectId, Json)> = documents
        .iter()
        .filter(|node| !node.is_null())
        .map(YamlNode::to_json)
        .map(|object| (ObjectId::of(&object), object))
        .collect();
    let mut found = Vec::new();
    for object in &build.objects {
        let id = ObjectId::of(&object.value);
        match old.iter().position(|(known, _)| *known == id) {
            None => found.push(format!("{}: not in {path}", crate::resources::show_id(&id))),
            Some(position) => {
                let (_, before) = old.remove(position);
                for change in crate::compare::changes(&before, &object.value) {
                    let shown =
                        |value: &Option<Json>| value.as_ref().map_or("nothing".to_owned(), Json::to_string);
                    found.push(format!(
                        "{} {}: expected {}, found {}",
                        crate::resources::show_id(&id),
                        crate::apply::show_segs(&change.path),
                        shown(&change.old),
                        shown(&change.new)
                    ));
                }
            }
        }
    }
    found
        .extend(old.into_iter().map(|(id, _)| format!("{}: only in {path}", crate::resources::show_id(&id))));
    if found.is_empty() {
        found.push(format!("{path} says the same in other words; run with --update"));
    }
    found
}

fn read_case(path: &str, node: &YamlNode, problems: &mut Problems) -> Option<TestCase> {
    node.as_map().or_else(|| {
        problems.push(node.problem("a test is a map").code("KT001"));
        None
    })?;
    read_strictly(node, ("KT001", "KT001"), problems, |fields| {
        let mut inputs = BuildInputs::default();
        if let Some(values) = fields.optional("values") {
            let text = serde_json::to_string(&values.to_json()).unwrap_or_default();
            inputs.values.push(ValuesFile { name: format!("{path} (values)"), text });
        }
        inputs.sets = fields.strings("set").into_iter().map(SetValue::yaml).collect();
        let expect = fields.json("expect");
        fields.fields("expect", |expect| EXPECT.into_iter().for_each(|key| expect.ignore(key)));
        let snapshot = fields.str("snapshot").map(|snapshot| {
            if snapshot.starts_with("tests/") { snapshot.to_owned() } else { format!("tests/{snapshot}") }
        });
        if let Some(snapshot) = &snapshot
            && snapshot.split('/').any(|part| part == "..")
        {
            let problem =
                fields.node_of("snapshot").problem(format!("`{snapshot}` leads out of the package"));
            fields.problems().push(problem.code("KR010"));
            return None;
        }
        let stem = path["tests/".len()..].trim_end_matches(".yaml").trim_end_matches(".yml");
        let name = fields.text("name").unwrap_or_else(|| stem.to_owned());
        Some(TestCase { file: path.to_owned(), name, inputs, expect, snapshot })
    })
}

fn find_object<'b>(build: &'b PackageBuild, text: &str) -> Option<&'b BuiltObject> {
    let parts: Vec<&str> = text.trim().split('/').collect();
    build.objects.iter().find(|object| {
        let id = &object.id;
        match parts.as_slice() {
            [kind, name] => id.kind.eq_ignore_ascii_case(kind) && id.name == *name,
            [kind, namespace, name] => {
                id.kind.eq_ignore_ascii_case(kind) && id.name == *name && id.namespace == *namespace
            }
            _ => false,
        }
    })
}

fn check_expectations(build: &PackageBuild, expect: &Json, failures: &mut Vec<String>) {
    match &expect["resources"] {
        Json::Array(names) => {
            for name in names.iter().filter_map(Json::as_str) {
                if find_object(build, name).is_none() {
                    let all: Vec<String> =
                        build.objects.iter().map(|object| crate::resources::show_id(&object.id)).collect();
                    failures.push(format!("{name} is not there; there are {}", join_words(&all, 10)));
                }
            }
        }
        Json::Number(count) => check_count(build, count, failures),
        _ => {}
    }
    if let Json::Number(count) = &expect["count"] {
        check_count(build, count, failures);
    }
    for name in expect["absent"].as_array().into_iter().flatten().filter_map(Json::as_str) {
        if find_object(build, name).is_some() {
            failures.push(format!("{name} is there but should not be"));
        }
    }
    for (target, wanted) in expect["fields"].as_object().into_iter().flatten() {
        check_field(build, target, wanted, failures);
    }
    for (key, wanted) in [("enabled", true), ("disabled", false)] {
        for id in expect["patches"][key].as_array().into_iter().flatten().filter_map(Json::as_str) {
            match build.is_enabled(id) {
                None => failures.push(format!("there is no patch {id}")),
                Some(on) if on != wanted => failures.push(format!("patch {id} should be {key}")),
                Some(_) => {}
            }
        }
    }
}

fn check_count(build: &PackageBuild, count: &serde_json::Number, failures: &mut Vec<String>) {
    if count.as_u64() != Some(build.objects.len() as u64) {
        failures.push(format!("expected {count} objects, found {}", build.objects.len()));
    }
}

/// `Deployment/web spec.replicas`: equal to a value, matching a pattern, or absent.
fn check_field(build: &PackageBuild, target: &str, wanted: &Json, failures: &mut Vec<String>) {
    let (name, path) = target.trim().split_once(' ').unwrap_or((target, ""));
    let Some(object) = find_object(build, name) else {
        failures.push(format!("{target}: {name} is not there"));
        return;
    };
    let steps = match path.trim() {
        "" => Vec::new(),
        path => match kpatch::parse_keypath(path) {
            Ok((steps, _)) => steps,
            Err(why) => {
                failures.push(format!("{target}: {why}"));
                return;
            }
        },
    };
    let found = steps.iter().try_fold(&*object.value, |value, step| match (&step.kind, value) {
        (StepKind::Key(key), value) => value.get(key.to_string()),
        (StepKind::Index(index), Json::Object(map)) => map.get(&index.to_string()),
        (StepKind::Index(index), value) => value.get(index),
        (StepKind::Match(terms), Json::Array(items)) => items.iter().find(|item| {
            terms.iter().all(|term| {
                let field = term.field.iter().try_fold(*item, |at, key| at.get(key));
                field.is_some_and(|field| {
                    field.as_str().map_or_else(|| field.to_string(), str::to_owned) == term.value.to_string()
                })
            })
        }),
        _ => None,
    });
    let rule = wanted.as_object().filter(|map| map.len() == 1);
    let absent = rule.and_then(|map| map.get("absent")).and_then(Json::as_bool);
    let pattern = rule.and_then(|map| map.get("matches")).and_then(Json::as_str);
    match (absent, pattern, found) {
        (Some(true), _, Some(found)) => failures.push(format!("{target}: expected nothing, found {found}")),
        (Some(true), _, None) => {}
        (_, _, None) => failures.push(format!("{target}: expected {wanted}, found nothing")),
        (_, Some(pattern), Some(found)) => {
            let text = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
            match regex::RegexBuilder::new(pattern).size_limit(1 << 20).build() {
                Ok(pattern) if pattern.is_match(&text) => {}
                Ok(_) => failures.push(format!("{target}: `{text}` does not match {pattern}")),
                Err(why) => failures.push(format!("{target}: {pattern} is no pattern: {why}")),
            }
        }
        (_, None, Some(found)) if found == wanted => {}
        (_, None, Some(found)) => {
            let changes = crate::compare::changes(wanted, found);
            if changes.len() == 1 && changes[0].path.is_empty() {
                failures.push(format!("{target}: expected {wanted}, found {found}"));
            }
            for change in changes.iter().filter(|change| !change.path.is_empty()) {
                let shown =
                    |value: &Option<Json>| value.as_ref().map_or("nothing".to_owned(), Json::to_string);
                failures.push(format!(
                    "{target} {}: expected {}, found {}",
                    crate::apply::show_segs(&change.path),
                    shown(&change.old),
                    shown(&change.new)
                ));
            }
        }
    }
}
