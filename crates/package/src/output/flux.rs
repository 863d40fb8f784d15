//! Flux Kustomizations, one per phase, each waiting for the one before.

use serde_json::{Value as Json, json};
use slipway_go::time::Duration;
use slipway_manifest::object::annotation;
use slipway_problem::{Problem, Problems};

use super::layout::list_kustomization;
use super::{EmitOptions, OutFile};
use crate::build::{BuiltObject, PackageBuild};
use crate::check::{TIMEOUT, WAIT};
use crate::report::coded_error;

/// Settings of the Flux Kustomizations.
#[derive(Clone, Debug)]
pub struct FluxOptions {
    /// `kind/name` or `kind/name/namespace`; there is no guessing it.
    pub source: Option<String>,
    /// The interval Flux looks at; `10m` unless told.
    pub interval: String,
    /// Put before the phase in `path`; `./<package>/` unless told.
    pub path_prefix: Option<String>,
    /// The namespace of the Kustomizations.
    pub namespace: String,
}

impl Default for FluxOptions {
    fn default() -> Self {
        Self {
            source: None,
            interval: "10m".to_owned(),
            path_prefix: None,
            namespace: "flux-system".to_owned(),
        }
    }
}

fn flux_source(options: &FluxOptions) -> Result<Json, Problem> {
    let wrong = || {
        coded_error("KO010", "Flux needs to know its source")
            .hint("--flux-source GitRepository/flux-system, with /namespace if it is elsewhere")
    };
    let text = options.source.as_deref().ok_or_else(wrong)?;
    let parts: Vec<&str> = text.split('/').collect();
    match parts.as_slice() {
        [kind, name] if !kind.is_empty() && !name.is_empty() => Ok(json!({"kind": kind, "name": name})),
        [kind, name, namespace] if !kind.is_empty() && !name.is_empty() && !namespace.is_empty() => {
            Ok(json!({"kind": kind, "name": name, "namespace": namespace}))
        }
        _ => Err(wrong()),
    }
}

impl PackageBuild {
    /// The phase directories and `flux/` beside them.
    pub fn flux(&self, options: &FluxOptions, emit: EmitOptions) -> Result<Vec<OutFile>, Problems> {
        let source = flux_source(options)?;
        let prefix = options.path_prefix.clone().unwrap_or_else(|| format!("./{}", self.package));
        let prefix = prefix.trim_end_matches('/');
        let mut files = self.phases(emit);
        let used = self.used_phases();
        let mut names = Vec::new();
        for (position, phase) in used.iter().enumerate() {
            let objects: Vec<&BuiltObject> =
                self.objects.iter().filter(|object| object.phase == *phase).collect();
            let mut spec = json!({
                "interval": options.interval,
                "path": format!("{prefix}/{phase}"),
                "prune": true,
                "sourceRef": source,
            });
            let Json::Object(map) = &mut spec else { continue };
            if let Some(before) = position.checked_sub(1).map(|before| used[before]) {
                map.insert("dependsOn".to_owned(), json!([{"name": format!("{}-{before}", self.package)}]));
            }
            let waited: Vec<Json> = objects
                .iter()
                .filter(|object| annotation(&object.value, WAIT) == Some("true"))
                .map(|object| {
                    let mut check = json!({
                        "apiVersion": object.value["apiVersion"],
                        "kind": object.id.kind,
                        "name": object.id.name,
                    });
                    if let (Json::Object(check), false) = (&mut check, object.id.namespace.is_empty()) {
                        check.insert("namespace".to_owned(), json!(object.id.namespace));
                    }
                    check
                })
                .collect();
            if !waited.is_empty() {
                // Flux ignores health checks when it waits for everything.
                map.insert("healthChecks".to_owned(), Json::Array(waited));
            } else if position + 1 < used.len() {
                map.insert("wait".to_owned(), Json::Bool(true));
            }
            let timeout = objects
                .iter()
                .filter_map(|object| annotation(&object.value, TIMEOUT))
                .max_by_key(|text| Duration::parse_unsigned(text).unwrap_or_default());
            if let Some(timeout) = timeout {
                map.insert("timeout".to_owned(), json!(timeout));
            }
            let name = format!("{}-{phase}", self.package);
            let object = json!({
                "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
                "kind": "Kustomization",
                "metadata": {"name": name, "namespace": options.namespace},
                "spec": spec,
            });
            names.push(format!("{name}.yaml"));
            files.push(OutFile { path: format!("flux/{name}.yaml"), text: emit.stream([&object]) });
        }
        let listed: Vec<&str> = names.iter().map(String::as_str).collect();
        files.push(OutFile { path: "flux/kustomization.yaml".to_owned(), text: list_kustomization(&listed) });
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(files)
    }
}
