//! The sources of variables, and which of them wins.

use std::collections::BTreeMap;

use slipway_problem::{Location, Problem, Problems};
use slipway_yaml::{NodeValue, YamlNode, YamlReader};

/// Variables as the command line and the environment give them.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// `NAME=value`, as given to `--set`.
    pub set: Vec<String>,
    /// Name and text of each variable file; later files win.
    pub files: Vec<(String, String)>,
    /// The environment.
    pub environment: Vec<(String, String)>,
    pub prefix: String,
    pub secret_prefix: String,
}

impl Default for Inputs {
    fn default() -> Self {
        Self {
            set: Vec::new(),
            files: Vec::new(),
            environment: Vec::new(),
            prefix: "KHOOK_VAR_".into(),
            secret_prefix: "KHOOK_SECRET_".into(),
        }
    }
}

/// The source of a value; later ones win.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Given {
    Environment,
    SecretEnvironment,
    File,
    Flag,
}

/// A variable's value.
#[derive(Clone, PartialEq, Eq)]
pub struct Variable {
    pub value: String,
    pub given: Given,
    /// True if the secret prefix named it, whichever source won.
    pub secret: bool,
}

impl std::fmt::Debug for Variable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = if self.secret { "***" } else { &self.value };
        f.debug_struct("Variable").field("value", &value).field("given", &self.given).finish()
    }
}

/// Every variable with the value that won.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    all: BTreeMap<String, Variable>,
    /// Values of the secret environment, also those that lost.
    secrets: Vec<String>,
}

impl Variables {
    /// Reads all sources and gives what they say, or everything that is wrong with them.
    pub fn gather(inputs: &Inputs) -> Result<Self, Problems> {
        let mut problems = Problems::new();
        let mut variables = Self::default();
        for (what, prefix) in [("--var-prefix", &inputs.prefix), ("--secret-prefix", &inputs.secret_prefix)] {
            if prefix.is_empty() {
                let message = format!("{what} is empty, which would take in the whole environment");
                problems
                    .push(Problem::error(message).code("E106").hint("give a prefix such as `KHOOK_VAR_`"));
            }
        }
        for (prefix, given) in
            [(&inputs.prefix, Given::Environment), (&inputs.secret_prefix, Given::SecretEnvironment)]
        {
            if prefix.is_empty() {
                continue;
            }
            for (key, value) in &inputs.environment {
                if let Some(name) = key.strip_prefix(prefix.as_str()).filter(|name| !name.is_empty()) {
                    variables.put(name, value, given);
                }
            }
        }
        for (file, text) in &inputs.files {
            variables.read_file(file, text, &mut problems);
        }
        for flag in &inputs.set {
            match flag.split_once('=') {
                Some((name, value)) if !name.is_empty() => variables.put(name, value, Given::Flag),
                _ => {
                    let message =
                        format!("`--set {}` names no variable", flag.split('=').next().unwrap_or(""));
                    problems.push(Problem::error(message).code("E105").hint("write `--set NAME=value`"));
                }
            }
        }
        problems.into_result(variables)
    }

    fn put(&mut self, name: &str, value: &str, given: Given) {
        let secret =
            given == Given::SecretEnvironment || self.all.get(name).is_some_and(|known| known.secret);
        if given == Given::SecretEnvironment {
            self.secrets.push(value.to_owned());
        }
        self.all.insert(name.to_owned(), Variable { value: value.to_owned(), given, secret });
    }

    /// Takes scalars as they are written: `1.10` must not become `1.1`.
    fn read_file(&mut self, file: &str, text: &str, problems: &mut Problems) {
        let mut found = Problems::new();
        let root = YamlReader::new().gather_one(text, file, &mut found);
        for problem in found {
            problems.push(problem.code("E104"));
        }
        let Some(root) = root else { return };
        match &root.value {
            NodeValue::Null => {}
            NodeValue::Map(entries) => {
                for (name, value) in entries.iter() {
                    match plain(value) {
                        Some(text) => self.put(&name.key_text(), &text, Given::File),
                        None => problems.push(
                            value
                                .problem(format!(
                                    "`{}` must be a scalar, not {}",
                                    name.key_text(),
                                    value.kind()
                                ))
                                .code("E104"),
                        ),
                    }
                }
            }
            _ => problems.push(
                Problem::error(format!("a variable file is a flat mapping, not {}", root.kind()))
                    .at(Location::file(file))
                    .code("E104"),
            ),
        }
    }

    /// The variable called `name`.
    pub fn get(&self, name: &str) -> Option<&Variable> {
        self.all.get(name)
    }

    /// Every variable by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Variable)> {
        self.all.iter().map(|(name, variable)| (name.as_str(), variable))
    }

    /// Every name.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all.keys().map(String::as_str)
    }

    /// Every value that must not be shown.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        let winning =
            self.all.values().filter(|variable| variable.secret).map(|variable| variable.value.as_str());
        self.secrets.iter().map(String::as_str).chain(winning)
    }
}

fn plain(node: &YamlNode) -> Option<String> {
    match &node.value {
        NodeValue::Null | NodeValue::Seq(_) | NodeValue::Map(_) => None,
        NodeValue::String(text) => Some(text.clone()),
        _ => Some(node.raw().to_owned()),
    }
}
