//! Objects of Flux, Argo CD and kustomize that deploy an exported unit.

use serde_json::{Map, Value, json};

use super::ExportOptions;
use super::external_secret::secret_name;
use crate::container::{BindingKind, UnitFile};
use slipway_manifest::image::ImageReference;

/// The mark of the unit on what deploys it.
const UNIT_DIGEST: &str = crate::plan::UNIT_DIGEST;

fn chart_path(unit: &UnitFile, options: &ExportOptions) -> String {
    let directory = options.directory.trim_matches('/');
    let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
    format!("./{prefix}chart/{}", unit.rows().chart.name)
}

/// Images that are written into rendered objects, as kustomize names them.
fn rewritten_images(unit: &UnitFile) -> Vec<Value> {
    let written = unit.rows().image_bindings.iter().filter(|binding| binding.kind == BindingKind::PostRender);
    let images = written.filter_map(|binding| {
        let after: ImageReference = binding.after.parse().ok()?;
        let before: Option<ImageReference> = binding.before.parse().ok();
        let name = before.map_or_else(|| after.repository.clone(), |before| before.repository);
        Some(json!({"name": name, "newName": after.repository, "digest": after.digest}))
    });
    images.collect()
}

/// A HelmRelease of Flux.
pub(super) fn helm_release(
    unit: &UnitFile,
    options: &ExportOptions,
    values: &Value,
    has_secrets: bool,
) -> Value {
    let mut values = values.clone();
    let mut values_from = Vec::new();
    if has_secrets {
        for (index, row) in unit.rows().secret_refs.iter().enumerate() {
            for path in &row.value_paths {
                remove_path(&mut values, path);
                values_from.push(json!({
                    "kind": "Secret", "name": secret_name(unit), "valuesKey": format!("secret-{index}"), "targetPath": path,
                }));
            }
        }
    }
    let mut spec = json!({
        "interval": "10m",
        "releaseName": unit.release_name(),
        "targetNamespace": unit.namespace(),
        "chart": {"spec": {
            "chart": chart_path(unit, options),
            "sourceRef": {"kind": "GitRepository", "name": options.repository.as_deref().unwrap_or("flux-system")},
        }},
        "values": values,
    });
    if !values_from.is_empty() {
        spec["valuesFrom"] = values_from.into();
    }
    let images = rewritten_images(unit);
    if !images.is_empty() {
        spec["postRenderers"] = json!([{"kustomize": {"images": images}}]);
    }
    json!({
        "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
        "metadata": {
            "name": unit.release_name(), "namespace": unit.namespace(), "annotations": {UNIT_DIGEST: unit.digest()},
        },
        "spec": spec,
    })
}

/// Removes a value by the way to it, `a.b[0].c`; items of lists stay.
fn remove_path(values: &mut Value, path: &str) {
    if path.contains('[') {
        return;
    }
    let mut steps: Vec<&str> = path.split('.').collect();
    let Some(last) = steps.pop() else { return };
    let parent = steps.into_iter().try_fold(values, |value, step| value.get_mut(step));
    if let Some(map) = parent.and_then(Value::as_object_mut) {
        map.shift_remove(last);
    }
}

/// An Application of Argo CD.
pub(super) fn application(unit: &UnitFile, options: &ExportOptions, values: &Value) -> Value {
    let path = chart_path(unit, options);
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {
            "name": unit.release_name(), "namespace": "argocd", "annotations": {UNIT_DIGEST: unit.digest()},
        },
        "spec": {
            "project": "default",
            "destination": {"server": "https://kubernetes.default.svc", "namespace": unit.namespace()},
            "source": {
                "repoURL": options.repository.as_deref().unwrap_or_default(),
                "targetRevision": "HEAD",
                "path": path.trim_start_matches("./"),
                "helm": {"releaseName": unit.release_name(), "valuesObject": values},
            },
            "syncPolicy": {"syncOptions": ["CreateNamespace=true"]},
        },
    })
}

/// A kustomization of rendered objects.
pub(super) fn kustomization(unit: &UnitFile, names: &[String], has_secrets: bool) -> Value {
    let mut resources: Vec<Value> = names.iter().map(|name| name.as_str().into()).collect();
    if has_secrets {
        resources.push("externalsecret.yaml".into());
    }
    let mut root = Map::new();
    root.insert("apiVersion".to_owned(), "kustomize.config.k8s.io/v1beta1".into());
    root.insert("kind".to_owned(), "Kustomization".into());
    root.insert("namespace".to_owned(), unit.namespace().into());
    root.insert("resources".to_owned(), resources.into());
    Value::Object(root)
}
