//! Settings: a flag, else the environment, else the configuration file, else a default.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use etcetera::BaseStrategy;
use slipway_problem::{Location, Problem, Problems};
use slipway_yaml::Fields;

use crate::cli::{Color, Globals, LogFormat, Output};
use crate::files;

/// A value and where it comes from.
#[derive(Clone, Debug)]
pub struct Setting<T> {
    pub value: T,
    pub origin: Origin,
}

/// Where a setting comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Flag,
    Variable(&'static str),
    File(Location),
    Default,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Flag => f.write_str("flag"),
            Self::Variable(name) => write!(f, "${name}"),
            Self::File(at) => at.fmt(f),
            Self::Default => f.write_str("default"),
        }
    }
}

/// Every setting of an invocation.
#[derive(Clone, Debug)]
pub struct Settings {
    pub kubeconfig: Setting<Option<PathBuf>>,
    pub context: Setting<Option<String>>,
    pub namespace: Setting<Option<String>>,
    pub output: Setting<Output>,
    pub color: Setting<Color>,
    pub log_format: Setting<LogFormat>,
    /// Use the embedded cluster.
    pub sandbox: bool,
    /// The configuration file, if there is one.
    pub file: Option<PathBuf>,
}

impl Settings {
    /// Settles every setting; reports every wrong one.
    pub fn resolve(globals: &Globals) -> Result<Self, Problems> {
        let mut problems = Problems::new();
        let (path, must_exist) = file_path(globals);
        let file = path.as_deref().filter(|path| must_exist || path.is_file());
        let layers = Layers { file: file.and_then(|path| problems.take(read(path))).unwrap_or_default() };
        let settings = Self {
            kubeconfig: layers.pick(
                globals.kubeconfig.clone().map(Some),
                &["SLIPWAY_KUBECONFIG", "KUBECONFIG"],
                "kubeconfig",
                |text| Ok(Some(PathBuf::from(text))),
                &mut problems,
            ),
            context: layers.pick(
                globals.context.clone().map(Some),
                &["SLIPWAY_CONTEXT"],
                "context",
                |text| Ok(Some(text.to_owned())),
                &mut problems,
            ),
            namespace: layers.pick(
                globals.namespace.clone().map(Some),
                &["SLIPWAY_NAMESPACE"],
                "namespace",
                |text| Ok(Some(text.to_owned())),
                &mut problems,
            ),
            output: layers.pick(globals.output, &["SLIPWAY_OUTPUT"], "output", word, &mut problems),
            color: layers.pick(globals.color, &["SLIPWAY_COLOR"], "color", word, &mut problems),
            log_format: layers.pick(
                globals.log_format,
                &["SLIPWAY_LOG_FORMAT"],
                "logFormat",
                word,
                &mut problems,
            ),
            sandbox: globals.sandbox,
            file: file.map(Path::to_owned),
        };
        problems.into_result(settings)
    }
}

/// The file to read, and whether it must be there because the user named it.
fn file_path(globals: &Globals) -> (Option<PathBuf>, bool) {
    let variable = std::env::var_os("SLIPWAY_CONFIG").filter(|path| !path.is_empty()).map(PathBuf::from);
    if let Some(named) = globals.config.clone().or(variable) {
        return (Some(named), true);
    }
    let strategy = etcetera::choose_base_strategy().ok();
    (strategy.map(|strategy| strategy.config_dir().join("slipway/config.yaml")), false)
}

/// What the configuration file says: key, text, place.
type FileSettings = Vec<(&'static str, String, Location)>;

const KEYS: [&str; 6] = ["kubeconfig", "context", "namespace", "output", "color", "logFormat"];

/// What editors should know of the file.
pub fn schema() -> serde_json::Value {
    let words = |key: &str| match key {
        "output" => names::<Output>(),
        "color" => names::<Color>(),
        "logFormat" => names::<LogFormat>(),
        _ => Vec::new(),
    };
    let property = |key: &'static str| {
        let words = words(key);
        let mut schema = serde_json::json!({ "type": "string" });
        if !words.is_empty() {
            schema["enum"] = words.into();
        }
        (key.to_owned(), schema)
    };
    let properties: serde_json::Map<_, _> = KEYS.into_iter().map(property).collect();
    serde_json::json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Slipway configuration file",
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    })
}

fn read(path: &Path) -> Result<FileSettings, Problems> {
    let text = files::read_text(path)?;
    let root = slipway_yaml::parse_one(&text.text, &text.name)?;
    let mut problems = Problems::new();
    let mut fields = Fields::of(&root, &mut problems);
    let mut settings = FileSettings::new();
    for key in KEYS {
        if let Some(value) = fields.string(key) {
            settings.push((key, value, fields.place(key).location()));
        }
    }
    fields.finish();
    problems.into_result(settings)
}

/// Settings and the layers under the flags.
struct Layers {
    file: FileSettings,
}

impl Layers {
    fn pick<T: Default>(
        &self,
        flag: Option<T>,
        variables: &[&'static str],
        key: &str,
        parse: impl Fn(&str) -> Result<T, Problem>,
        problems: &mut Problems,
    ) -> Setting<T> {
        if let Some(value) = flag {
            return Setting { value, origin: Origin::Flag };
        }
        for &name in variables {
            let Some(text) = std::env::var_os(name).filter(|text| !text.is_empty()) else { continue };
            let parsed = parse(&text.to_string_lossy())
                .map_err(|problem| problem.at(Location::file(format!("${name}"))));
            if let Some(value) = problems.take(parsed) {
                return Setting { value, origin: Origin::Variable(name) };
            }
        }
        for (_, text, at) in self.file.iter().filter(|(name, ..)| *name == key) {
            if let Some(value) = problems.take(parse(text).map_err(|problem| problem.at(at.clone()))) {
                return Setting { value, origin: Origin::File(at.clone()) };
            }
        }
        Setting { value: T::default(), origin: Origin::Default }
    }
}

/// One of a flag's own words.
fn word<T: ValueEnum>(text: &str) -> Result<T, Problem> {
    T::from_str(text, false).map_err(|_| {
        let names = names::<T>();
        Problem::error(format!("`{text}` is not one of {}", names.join(", ")))
            .did_you_mean(text, names.iter().map(String::as_str))
    })
}

fn names<T: ValueEnum>() -> Vec<String> {
    let words = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    words.map(|word| word.get_name().to_owned()).collect()
}
