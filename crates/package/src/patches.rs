//! Finding patches and reading the sidecars that say when they apply.

use std::collections::HashMap;
use std::sync::Arc;

use slipway_problem::{Location, Problems};
use slipway_yaml::{FieldReader, YamlNode, YamlReader};

use crate::files::PackageFiles;
use crate::kpatch::{self, PatchFile};
use crate::report::{coded_error, coded_note, coded_warning, read_strictly, with_code};
use crate::template::{ParamPath, Template};

/// Whose patch it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PatchOrigin {
    Package,
    Local,
}

/// The condition a patch applies under.
#[derive(Clone, Debug, PartialEq)]
pub enum EnabledCondition {
    /// Nothing is said: always.
    Always,
    Literal(bool),
    When(ParamPath),
    /// Could not be read, which was reported.
    Broken,
}

/// One patch and its sidecar.
#[derive(Clone, Debug)]
pub struct Patch {
    /// Relative to `patches/`: `features/10-monitoring.kpatch`.
    pub id: String,
    pub origin: PatchOrigin,
    /// As problems name it: `patches/features/10-monitoring.kpatch`.
    pub file: Arc<str>,
    pub text: Arc<str>,
    pub content: PatchFile,
    pub enabled: EnabledCondition,
    pub enabled_at: Option<Location>,
    pub description: Option<String>,
    pub requires: Vec<(String, Location)>,
    pub conflicts: Vec<(String, Location)>,
}

impl Patch {
    /// The name as reports give it: local ones are marked.
    pub fn shown(&self) -> String {
        match self.origin {
            PatchOrigin::Package => self.id.clone(),
            PatchOrigin::Local => format!("local:{}", self.id),
        }
    }

    /// The last part of the id without its extension: `10-monitoring`.
    pub fn short(&self) -> &str {
        let name = self.id.rsplit('/').next().unwrap_or(&self.id);
        name.strip_suffix(".kpatch").unwrap_or(name)
    }
}

/// Loads the patches below `patches/`; `shown` is put before their paths in problems.
pub(crate) fn load_patches(
    files: &PackageFiles,
    origin: PatchOrigin,
    shown: &str,
    problems: &mut Problems,
) -> Vec<Patch> {
    let mut patches = Vec::new();
    let mut sidecars: HashMap<String, Vec<&str>> = HashMap::new();
    for path in files.below("patches/") {
        let id = &path["patches/".len()..];
        let at = || Location::file(format!("{shown}{path}"));
        if let Some(stem) = id.strip_suffix(".yaml").or_else(|| id.strip_suffix(".yml")) {
            sidecars.entry(stem.to_owned()).or_default().push(path);
        } else if !id.ends_with(".kpatch") {
            let problem = coded_warning("KD012", "the file is neither a patch nor a sidecar").at(at());
            let renamed = id.ends_with(".toml") || id.ends_with(".patch");
            problems.push(if renamed { problem.hint("rename it to .kpatch") } else { problem });
        }
    }
    for path in files.below("patches/") {
        let Some(stem) = path["patches/".len()..].strip_suffix(".kpatch") else { continue };
        let file: Arc<str> = format!("{shown}{path}").into();
        let Some(text) = files.text(path, problems) else { continue };
        let content = kpatch::parse(&file, text, problems);
        let mut patch = Patch {
            id: format!("{stem}.kpatch"),
            origin,
            file,
            text: text.into(),
            content,
            enabled: EnabledCondition::Always,
            enabled_at: None,
            description: None,
            requires: Vec::new(),
            conflicts: Vec::new(),
        };
        let own = sidecars.remove(stem).unwrap_or_default();
        if let [first, second, ..] = own.as_slice() {
            let message = format!("the patch has two sidecars: {first} and {second}");
            problems.push(coded_error("KD011", message).at(Location::file(format!("{shown}{second}"))));
        }
        if let Some(path) = own.first()
            && let Some(text) = files.text(path, problems)
        {
            read_sidecar(&mut patch, &format!("{shown}{path}"), text, problems);
        }
        patches.push(patch);
    }
    let mut orphans: Vec<&str> = sidecars.into_values().flatten().collect();
    orphans.sort_unstable();
    for path in orphans {
        let problem = coded_warning("KD010", "the sidecar belongs to no patch")
            .at(Location::file(format!("{shown}{path}")));
        problems.push(problem.hint("a sidecar has the name of its .kpatch"));
    }
    // Ids compare as bytes, the sidecars between them notwithstanding.
    patches.sort_by(|a, b| a.id.cmp(&b.id));
    patches
}

fn read_sidecar(patch: &mut Patch, file: &str, text: &str, problems: &mut Problems) {
    let node = match YamlReader::new().max_nodes(10_000).max_depth(20).read_one(text, file) {
        Ok(node) => node,
        Err(found) => {
            problems.extend(with_code(found, "KD002"));
            patch.enabled = EnabledCondition::Broken;
            return;
        }
    };
    if !node.is_null() && node.as_map().is_none() {
        patch.enabled = EnabledCondition::Broken;
    }
    read_strictly(&node, ("KD001", "KD002"), problems, |fields| {
        if let Some(value) = fields.optional("enabled") {
            patch.enabled = read_enabled(value, fields.problems());
            patch.enabled_at = Some(value.location());
        }
        patch.description = fields.text("description");
        patch.requires = read_ids(&patch.id, "requires", fields);
        patch.conflicts = read_ids(&patch.id, "conflicts", fields);
    });
}

fn read_enabled(value: &YamlNode, problems: &mut Problems) -> EnabledCondition {
    if let Some(value) = value.as_bool() {
        return EnabledCondition::Literal(value);
    }
    let not_boolean = |problems: &mut Problems| {
        problems.push(
            value
                .problem(format!(
                    "`enabled` must be true, false or one ${{parameter}}, not `{}`",
                    value.raw()
                ))
                .code("KD003"),
        );
        EnabledCondition::Broken
    };
    let Some(text) = value.as_str() else { return not_boolean(problems) };
    let expression = |problems: &mut Problems| {
        problems.push(
            value
                .problem("only a single ${parameter} is allowed")
                .code("KD004")
                .hint("add a boolean parameter that says it"),
        );
        EnabledCondition::Broken
    };
    match Template::parse(text) {
        Ok(Template::Literal(text)) => match text.as_str() {
            "true" => EnabledCondition::Literal(true),
            "false" => EnabledCondition::Literal(false),
            _ => not_boolean(problems),
        },
        Ok(Template::Whole(path)) => EnabledCondition::When(path),
        Ok(Template::Mixed(_)) | Err(_) => expression(problems),
    }
}

fn read_ids(own: &str, key: &'static str, fields: &mut FieldReader<'_, '_>) -> Vec<(String, Location)> {
    let mut found: Vec<(String, Location)> = Vec::new();
    fields.seq(key, |item, problems| {
        let Some(text) = item.scalar_text() else {
            problems.push(item.problem("a patch id is text"));
            return None::<()>;
        };
        let text = text.strip_prefix("patches/").unwrap_or(&text);
        let id = if text.ends_with(".kpatch") { text.to_owned() } else { format!("{text}.kpatch") };
        if id == own {
            problems.push(item.problem(format!("the patch names itself in `{key}`")).code("KD007"));
        } else if found.iter().any(|(known, _)| *known == id) {
            problems
                .push(coded_note("KD008", format!("`{id}` is listed twice in `{key}`")).at(item.location()));
        } else {
            found.push((id, item.location()));
        }
        None
    });
    found
}
