//! Facts about a package, for `info` and `patches list`.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value as Json;
use slipway_problem::Problems;

use crate::build::{BuildInputs, InstallPhase, PHASE, PackageBuild, state_word};
use crate::enable::{PatchDecision, PatchState, decide_patches};
use crate::package::Package;
use crate::params::PackageMetadata;
use crate::patches::PatchOrigin;
use slipway_manifest::object::annotation;

/// A package in numbers and names.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct PackageInfo {
    pub metadata: PackageMetadata,
    pub parameters: Vec<ParameterInfo>,
    /// Objects by namespace; `""` for those without.
    pub resources: BTreeMap<String, Vec<String>>,
    pub patches: Vec<PatchInfo>,
    pub phases: BTreeMap<&'static str, usize>,
}

/// One parameter and its default.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct ParameterInfo {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub default: Json,
}

/// One row of `patches list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct PatchInfo {
    pub id: String,
    /// Its number in the order of application; `None` for those that do not apply.
    pub order: Option<usize>,
    pub state: &'static str,
    pub enabled: bool,
    pub reason: String,
    pub statements: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<String>,
}

impl Package {
    /// The patches, whether they apply and why, in the order of their ids.
    pub fn patch_list(&self, inputs: &BuildInputs) -> Result<Vec<PatchInfo>, Problems> {
        let params = self.params(inputs)?;
        let mut problems = Problems::new();
        let decision = decide_patches(&self.patches, &params, &mut problems);
        let circular = problems.iter().any(|problem| problem.code.as_deref() == Some("KD020"));
        if circular { Err(problems) } else { Ok(self.patch_rows(&decision)) }
    }

    fn patch_rows(&self, decision: &PatchDecision) -> Vec<PatchInfo> {
        self.patches
            .iter()
            .zip(&decision.states)
            .enumerate()
            .map(|(index, (patch, state))| PatchInfo {
                id: patch.shown(),
                order: decision
                    .order
                    .iter()
                    .position(|&other| other == index && state.is_on())
                    .map(|position| position + 1),
                state: state_word(state),
                enabled: state.is_on(),
                reason: state.to_string(),
                statements: patch.content.statements(),
                description: patch.description.clone(),
                requires: patch.requires.iter().map(|(id, _)| id.clone()).collect(),
                conflicts: patch.conflicts.iter().map(|(id, _)| id.clone()).collect(),
            })
            .collect()
    }

    /// Facts about the package.
    pub fn info(&self, inputs: &BuildInputs) -> Result<PackageInfo, Problems> {
        let params = self.params(inputs)?;
        let mut parameters = Vec::new();
        let mut pending = vec![(String::new(), params.root.to_json())];
        while let Some((name, value)) = pending.pop() {
            match value {
                Json::Object(map) if !map.is_empty() => {
                    for (key, value) in map {
                        pending.push((if name.is_empty() { key } else { format!("{name}.{key}") }, value));
                    }
                }
                value if !name.starts_with("kurel.") => {
                    let kind = match &value {
                        Json::Null => "any",
                        Json::Bool(_) => "boolean",
                        Json::Number(number) if number.is_f64() => "number",
                        Json::Number(_) => "integer",
                        Json::String(_) => "string",
                        Json::Array(_) => "array",
                        Json::Object(_) => "object",
                    };
                    parameters.push(ParameterInfo { name, kind: kind.to_owned(), default: value });
                }
                _ => {}
            }
        }
        parameters.sort_by(|a, b| a.name.cmp(&b.name));
        let mut resources: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut phases: BTreeMap<&'static str, usize> = BTreeMap::new();
        for resource in &self.resources {
            resources
                .entry(resource.id.namespace.clone())
                .or_default()
                .push(format!("{}/{}", resource.id.kind, resource.id.name));
            let phase = annotation(&resource.value, PHASE).and_then(InstallPhase::parse).unwrap_or_default();
            *phases.entry(phase.name()).or_default() += 1;
        }
        resources.values_mut().for_each(|names| names.sort());
        Ok(PackageInfo {
            metadata: self.metadata.clone(),
            parameters,
            resources,
            patches: self.patch_list(inputs)?,
            phases,
        })
    }

    /// The graph of patches in DOT, requirements solid and conflicts dashed.
    pub fn patch_graph_dot(&self) -> String {
        let mut out = String::from("digraph patches {\n  rankdir=LR;\n");
        for patch in self.patches.iter() {
            out.push_str(&format!("  {:?};\n", patch.shown()));
            let prefix = if patch.origin == PatchOrigin::Local { "local:" } else { "" };
            for (id, _) in &patch.requires {
                out.push_str(&format!("  {:?} -> {:?};\n", patch.shown(), format!("{prefix}{id}")));
            }
            for (id, _) in &patch.conflicts {
                out.push_str(&format!(
                    "  {:?} -> {:?} [style=dashed, dir=none, color=red];\n",
                    patch.shown(),
                    format!("{prefix}{id}")
                ));
            }
        }
        out.push_str("}\n");
        out
    }
}

impl PackageBuild {
    /// Returns true if a patch applied, by its id.
    pub fn is_enabled(&self, id: &str) -> Option<bool> {
        let id = if id.ends_with(".kpatch") { id.to_owned() } else { format!("{id}.kpatch") };
        let index = self.patches.iter().position(|patch| patch.shown() == id || patch.id == id)?;
        Some(matches!(self.decision.states[index], PatchState::On(_) | PatchState::Required { .. }))
    }
}
