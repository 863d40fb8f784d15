//! Loads policies from files and directories: all problems of all files at once.

use std::path::{Path, PathBuf};

use slipway_problem::{Location, Problem, Problems, read_hint, read_text_file};

use crate::evaluate;
use crate::input::PolicyInput;
use crate::model::{ChangeCheck, Policy, PolicyMode, PolicyRule, RuleCheck, ScopeCheck, TargetMatch};
use crate::pattern::PatternList;
use crate::read;
use crate::report::PolicyReport;

/// The policies a plan is held against; all of them have to agree.
#[derive(Clone, Debug, Default)]
pub struct PolicySet {
    policies: Vec<Policy>,
    sources: Vec<PolicySource>,
}

/// The text of a policy file, for those that keep it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySource {
    /// The path as it was given.
    pub name: String,
    pub text: String,
}

impl PolicySet {
    /// Reads files, and the `*.yaml` and `*.yml` files of directories in the order of their names.
    pub fn load(paths: &[PathBuf]) -> Result<Self, Problems> {
        let mut problems = Problems::new();
        let mut sources: Vec<PolicySource> = Vec::new();
        for path in paths {
            for file in files_of(path, &mut problems) {
                let name = file.display().to_string();
                if sources.iter().any(|known| known.name == name) {
                    continue;
                }
                match read_text_file(&file) {
                    Ok(text) => sources.push(PolicySource { name, text }),
                    Err(error) => problems.push(unreadable(&file, &error)),
                }
            }
        }
        Self::read(sources, problems)
    }

    /// Reads policies that are kept elsewhere than in files.
    pub fn parse(sources: Vec<PolicySource>) -> Result<Self, Problems> {
        Self::read(sources, Problems::new())
    }

    fn read(sources: Vec<PolicySource>, mut problems: Problems) -> Result<Self, Problems> {
        let mut policies = Vec::new();
        for source in &sources {
            policies.extend(read::read_policies(source, &mut problems));
        }
        problems.sort_by_location();
        problems.into_result(Self { policies, sources })
    }

    /// The rules that hold where nobody wrote any: they warn of what cannot be undone and of what others share.
    pub fn guardrails() -> Self {
        let destroy = ChangeCheck {
            forbid_destroy_kinds: PatternList::of(&[
                "PersistentVolumeClaim",
                "Namespace",
                "CustomResourceDefinition",
            ]),
            ..ChangeCheck::default()
        };
        let rule = |id: &str, check| PolicyRule { id: id.to_owned(), check };
        let policy = Policy {
            name: "guardrails".to_owned(),
            mode: PolicyMode::Warn,
            applies: TargetMatch::default(),
            rules: vec![
                rule("destroy", RuleCheck::Changes(destroy)),
                rule("cluster-scoped", RuleCheck::ClusterScoped(ScopeCheck::OnlyChanged)),
            ],
            exceptions: Vec::new(),
        };
        Self { policies: vec![policy], sources: Vec::new() }
    }

    /// Tells that there is no rule at all.
    pub fn is_empty(&self) -> bool {
        self.policies.is_empty()
    }

    /// The files the policies were read from.
    pub fn sources(&self) -> &[PolicySource] {
        &self.sources
    }

    /// Holds a plan against every policy that is for its target.
    pub fn evaluate(&self, input: &PolicyInput<'_>) -> PolicyReport {
        evaluate::evaluate(&self.policies, input)
    }
}

fn files_of(path: &Path, problems: &mut Problems) -> Vec<PathBuf> {
    if !path.is_dir() {
        return vec![path.to_owned()];
    }
    let entries = match path.read_dir() {
        Ok(entries) => entries,
        Err(error) => {
            problems.push(unreadable(path, &error));
            return Vec::new();
        }
    };
    let is_yaml = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_file())
        .filter(is_yaml)
        .collect();
    files.sort();
    if files.is_empty() {
        let problem = Problem::error("there is no policy in this directory");
        let at = Location::file(path.display().to_string());
        problems.push(problem.at(at).hint("policies are its `*.yaml` and `*.yml` files"));
    }
    files
}

fn unreadable(path: &Path, error: &std::io::Error) -> Problem {
    let problem = Problem::error(format!("cannot be read: {}", slipway_problem::describe_io(error)));
    problem.at(Location::file(path.display().to_string())).hint(read_hint(error))
}
