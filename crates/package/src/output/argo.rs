//! Argo CD: phases become sync waves.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use slipway_manifest::object::{annotation, set_annotation};
use slipway_problem::Problems;

use super::{EmitOptions, OutFile};
use crate::build::{InstallPhase, PackageBuild};
use crate::report::coded_warning;
use crate::resources::show_id;

const WAVE: &str = "argocd.argoproj.io/sync-wave";

/// The Application to write beside the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgoApp {
    pub repository: String,
    pub path: String,
    pub revision: Option<String>,
}

impl ArgoApp {
    /// Reads `repo,path[,revision]`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(',').map(str::trim);
        let (repository, path) = (parts.next()?, parts.next()?);
        let revision = parts.next().map(str::to_owned);
        (!repository.is_empty() && !path.is_empty() && parts.next().is_none()).then(|| Self {
            repository: repository.to_owned(),
            path: path.to_owned(),
            revision,
        })
    }
}

impl PackageBuild {
    /// The build with a sync wave on every object that needs one.
    pub fn with_waves(&self) -> (Self, Problems) {
        let mut build = self.clone();
        let mut problems = Problems::new();
        for object in &mut build.objects {
            let wave = match object.phase {
                InstallPhase::PreInstall => Some("-10"),
                InstallPhase::Main => None,
                InstallPhase::PostInstall => Some("10"),
            };
            match (annotation(&object.value, WAVE).map(str::to_owned), wave) {
                (Some(own), _) => {
                    let number: i64 = own.trim().parse().unwrap_or(0);
                    let contradicts = match object.phase {
                        InstallPhase::PreInstall => number >= 0,
                        InstallPhase::PostInstall => number <= 0,
                        InstallPhase::Main => false,
                    };
                    if contradicts {
                        let message = format!(
                            "{} is in phase {} but has sync wave {own}",
                            show_id(&object.id),
                            object.phase
                        );
                        problems.push(coded_warning("KO011", message).at(object.at.clone()));
                    }
                }
                (None, Some(wave)) => set_annotation(Arc::make_mut(&mut object.value), WAVE, wave),
                (None, None) => {}
            }
        }
        (build, problems)
    }

    /// The phase directories with sync waves, and an Application if asked for.
    pub fn argo(&self, app: Option<&ArgoApp>, emit: EmitOptions) -> (Vec<OutFile>, Problems) {
        let (build, problems) = self.with_waves();
        let mut files = build.phases(emit);
        if let Some(app) = app {
            let object: Json = json!({
                "apiVersion": "argoproj.io/v1alpha1",
                "kind": "Application",
                "metadata": {"name": self.package, "namespace": "argocd"},
                "spec": {
                    "project": "default",
                    "source": {
                        "repoURL": app.repository,
                        "path": app.path,
                        "targetRevision": app.revision.as_deref().unwrap_or("HEAD"),
                        "directory": {"recurse": true, "exclude": "{**/kustomization.yaml,argocd/*}"},
                    },
                    "destination": {"server": "https://kubernetes.default.svc"},
                    "syncPolicy": {"automated": {"prune": true, "selfHeal": true}},
                },
            });
            files.push(OutFile {
                path: format!("argocd/{}.yaml", self.package),
                text: emit.stream([&object]),
            });
            files.sort_by(|a, b| a.path.cmp(&b.path));
        }
        (files, problems)
    }
}
