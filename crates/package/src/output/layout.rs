//! Directories of files: by phase for GitOps, flat, by kind or one file per object.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value as Json, json};

use super::{EmitOptions, OutFile};
use crate::build::{BuiltObject, InstallPhase, PackageBuild};

/// The layout of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileLayout {
    /// A directory per phase, a file per kind, a kustomization in each.
    #[default]
    Phases,
    /// One file.
    Flat,
    /// A file per kind.
    ByKind,
    /// A file per object.
    ByResource,
}

impl FileLayout {
    /// Finds a layout by its name on the command line.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "phases" => Self::Phases,
            "flat" => Self::Flat,
            "by-kind" => Self::ByKind,
            "by-resource" => Self::ByResource,
            _ => return None,
        })
    }
}

const RBAC: [&str; 5] = ["ServiceAccount", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"];

impl PackageBuild {
    /// The files of a layout, by path.
    pub fn files(&self, layout: FileLayout, emit: EmitOptions) -> Vec<OutFile> {
        let objects: Vec<&BuiltObject> = self.objects.iter().collect();
        match layout {
            FileLayout::Flat => {
                vec![OutFile { path: format!("{}.yaml", self.package), text: self.stream(emit) }]
            }
            FileLayout::ByKind => self.kind_files(&objects, "", emit),
            FileLayout::ByResource => resource_files(&objects, emit),
            FileLayout::Phases => self.phases(emit),
        }
    }

    /// The phases that have objects, in order.
    pub fn used_phases(&self) -> Vec<InstallPhase> {
        InstallPhase::ALL
            .into_iter()
            .filter(|phase| self.objects.iter().any(|object| object.phase == *phase))
            .collect()
    }

    /// A directory per phase that `kustomize build` accepts.
    pub fn phases(&self, emit: EmitOptions) -> Vec<OutFile> {
        let mut files = Vec::new();
        let mut before: Option<InstallPhase> = None;
        for phase in self.used_phases() {
            let objects: Vec<&BuiltObject> =
                self.objects.iter().filter(|object| object.phase == phase).collect();
            let inside = self.kind_files(&objects, &format!("{phase}/"), emit);
            let names: Vec<&str> = inside.iter().map(|file| &file.path[phase.name().len() + 1..]).collect();
            let comment = match before {
                Some(before) => format!("# comes after {before}\n"),
                None => String::new(),
            };
            files.push(OutFile {
                path: format!("{phase}/kustomization.yaml"),
                text: format!("{comment}{}", list_kustomization(&names)),
            });
            files.extend(inside);
            before = Some(phase);
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files
    }

    fn kind_files(&self, objects: &[&BuiltObject], prefix: &str, emit: EmitOptions) -> Vec<OutFile> {
        let mut files: BTreeMap<String, Vec<&Json>> = BTreeMap::new();
        for object in objects {
            files.entry(self.kind_file_name(object)).or_default().push(&*object.value);
        }
        files
            .into_iter()
            .map(|(name, objects)| OutFile { path: format!("{prefix}{name}"), text: emit.stream(objects) })
            .collect()
    }

    fn kind_file_name(&self, object: &BuiltObject) -> String {
        let id = &object.id;
        if RBAC.contains(&id.kind.as_str())
            && (id.group.is_empty() || id.group == "rbac.authorization.k8s.io")
        {
            return "rbac.yaml".to_owned();
        }
        let (plural, built_in) = self.kinds.plural(&id.group, &id.kind);
        let plain = |text: &str| {
            text.chars()
                .map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '.' { c } else { '-' })
                .collect::<String>()
        };
        if built_in || id.group.is_empty() {
            format!("{}.yaml", plain(&plural))
        } else {
            format!("{}.{}.yaml", plain(&plural), plain(&id.group))
        }
    }
}

/// A kustomization that only lists files.
pub(super) fn list_kustomization(names: &[&str]) -> String {
    let object = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": names,
    });
    let mut text = String::new();
    EmitOptions::default().object(&object, &mut text);
    text
}

fn resource_files(objects: &[&BuiltObject], emit: EmitOptions) -> Vec<OutFile> {
    let mut used: HashMap<String, usize> = HashMap::new();
    let plain = |text: &str| {
        text.chars()
            .map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '.' { c } else { '_' })
            .collect::<String>()
    };
    let mut files: Vec<OutFile> = objects
        .iter()
        .map(|object| {
            let id = &object.id;
            let mut parts = vec![id.kind.to_ascii_lowercase()];
            if !id.namespace.is_empty() {
                parts.push(id.namespace.clone());
            }
            parts.push(id.name.clone());
            let stem = plain(&parts.join("-"));
            let count = used.entry(stem.clone()).or_insert(0);
            *count += 1;
            let path = if *count == 1 { format!("{stem}.yaml") } else { format!("{stem}-{count}.yaml") };
            OutFile { path, text: emit.stream([&*object.value]) }
        })
        .collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}
