//! A revision as Go templates see it, for `slipway get all --template`.

use serde_json::{Map, Value, json};
use slipway_chart::render_text;
use slipway_cluster::helm::{Hook, Release};
use slipway_gotmpl::{GoValue, NoHost, WholeNumbers};

/// Renders a template over `.Release`, whose fields have the names they have in Helm.
pub fn render_release(template: &str, release: &Release) -> anyhow::Result<String> {
    let info = &release.info;
    let chart = &release.chart;
    let view = json!({"Release": {
        "Name": release.name,
        "Namespace": release.namespace,
        "Version": release.version,
        "Manifest": release.manifest,
        "Config": release.config,
        "Labels": release.labels,
        "ApplyMethod": release.apply_method,
        "Hooks": release.hooks.iter().map(hook_view).collect::<Vec<_>>(),
        "Info": {
            "FirstDeployed": info.first_deployed,
            "LastDeployed": info.last_deployed,
            "Deleted": info.deleted,
            "Description": info.description,
            "Status": info.status.to_string(),
            "Notes": info.notes,
        },
        "Chart": {
            "Metadata": go_fields(&chart.metadata),
            "Values": chart.values,
        },
    }});
    Ok(render_text(template, &GoValue::from_json(&view, WholeNumbers::Int64), &NoHost)?)
}

fn hook_view(hook: &Hook) -> Value {
    json!({
        "Name": hook.name,
        "Kind": hook.kind,
        "Path": hook.path,
        "Manifest": hook.manifest,
        "Events": hook.events,
        "Weight": hook.weight,
        "DeletePolicies": hook.delete_policies,
    })
}

/// The fields of `Chart.yaml` under the names of Go: a capital first, and abbreviations in capitals.
fn go_fields(metadata: &Map<String, Value>) -> Value {
    let name = |key: &str| match key {
        "apiVersion" => "APIVersion".to_owned(),
        "url" => "URL".to_owned(),
        key => {
            let mut letters = key.chars();
            letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
        }
    };
    let value = |key: &str, value: &Value| match value {
        Value::Array(items) => {
            items.iter().map(|item| item.as_object().map_or_else(|| item.clone(), go_fields)).collect()
        }
        // Annotations are the chart's own keys.
        Value::Object(fields) if key != "annotations" => go_fields(fields),
        other => other.clone(),
    };
    metadata.iter().map(|(key, found)| (name(key), value(key, found))).collect::<Map<_, _>>().into()
}
