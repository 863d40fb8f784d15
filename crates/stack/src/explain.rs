//! The layers that set a value, and what they overrode.

use serde::Serialize;
use serde_json::{Value, json};
use slipway_problem::{Location, Problem};

use crate::duration;
use crate::inherit::{self, Layer, Release};
use crate::model::Settings;
use crate::plan::Stack;

/// One field of a release: what it is and who said so.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Field {
    pub field: String,
    pub value: Value,
    /// Weakest first; empty when nobody said anything and a default holds.
    pub said: Vec<Said>,
}

/// A field as one layer sets it.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Said {
    /// `defaults`, `profile prod` or `release`.
    pub layer: String,
    pub at: Location,
    pub value: Value,
    /// True if it counts in the end.
    pub counts: bool,
}

/// Tells the story of every field of a release, or of those called `field` (`set` stands for all of
/// `set.…`).
pub fn explain(stack: &Stack, release: &Release, field: Option<&str>) -> Result<Vec<Field>, Problem> {
    let declaration = &stack.tree.releases[release.declaration];
    let layers = inherit::layers(&stack.tree, declaration, stack.profile.as_deref());
    let own = |value: &str, at: &Location| Said {
        layer: "release".to_owned(),
        at: at.clone(),
        value: json!(value),
        counts: true,
    };
    let mut fields = vec![Field {
        field: "chart".to_owned(),
        value: json!(declaration.chart.value),
        said: vec![own(&declaration.chart.value, &declaration.chart.at)],
    }];
    if let Some(version) = &declaration.chart_version {
        let said = vec![own(&version.value, &version.at)];
        fields.push(Field { field: "chartVersion".to_owned(), value: json!(version.value), said });
    }
    let target = &release.target;
    fields.push(scalar("cluster.name", json!(target.name), &layers, |s| {
        s.cluster.as_ref().map(|v| (json!(v.value), v.at.clone()))
    }));
    fields.push(scalar("cluster.kubeconfig", json!(target.kubeconfig), &layers, |s| {
        s.kubeconfig.as_ref().map(|v| (json!(v.value), v.at.clone()))
    }));
    fields.push(scalar("cluster.context", json!(target.context), &layers, |s| {
        s.context.as_ref().map(|v| (json!(v.value), v.at.clone()))
    }));
    fields.push(scalar("namespace", json!(release.id.namespace), &layers, |s| {
        s.namespace.as_ref().map(|v| (json!(v.value), v.at.clone()))
    }));
    fields.push(list("values", &layers, |s| (&s.values, s.reset_values)));
    fields.push(list("tags", &layers, |s| (&s.tags, s.reset_tags)));
    let needs: Vec<&str> = declaration.needs.iter().map(|need| need.value.as_str()).collect();
    let said = declaration.needs.iter().map(|need| own(&need.value, &need.at)).collect();
    fields.push(Field { field: "needs".to_owned(), value: json!(needs), said });
    for (key, value) in &release.set {
        fields.push(scalar(&format!("set.{key}"), value.clone(), &layers, |s| {
            let found = s.set.iter().find(|(known, _)| known == key);
            found.map(|(_, v)| (v.value.clone(), v.at.clone()))
        }));
    }
    let apply = &release.apply;
    fields.push(scalar("apply.atomic", json!(apply.atomic), &layers, |s| {
        s.atomic.as_ref().map(|v| (json!(v.value), v.at.clone()))
    }));
    fields.push(scalar("apply.wait", json!(apply.wait), &layers, |s| {
        s.wait.as_ref().map(|v| (json!(v.value), v.at.clone()))
    }));
    fields.push(scalar("apply.timeout", json!(duration::show(apply.timeout)), &layers, |s| {
        s.apply_timeout.as_ref().map(|v| (json!(duration::show(v.value)), v.at.clone()))
    }));
    fields.push(scalar("apply.createNamespace", json!(apply.create_namespace), &layers, |s| {
        s.create_namespace.as_ref().map(|v| (json!(v.value), v.at.clone()))
    }));
    fields.push(scalar("delete.timeout", json!(duration::show(release.delete_timeout)), &layers, |s| {
        s.delete_timeout.as_ref().map(|v| (json!(duration::show(v.value)), v.at.clone()))
    }));
    let Some(wanted) = field else { return Ok(fields) };
    let known: Vec<String> = fields.iter().map(|field| field.field.clone()).collect();
    fields.retain(|field| {
        field.field == wanted || field.field.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('.'))
    });
    if fields.is_empty() {
        let problem = Problem::error(format!("release {} has no field \"{wanted}\"", release.id));
        return Err(problem.did_you_mean(wanted, known.iter().map(String::as_str)));
    }
    Ok(fields)
}

fn scalar(
    field: &str,
    value: Value,
    layers: &[Layer<'_>],
    pick: impl Fn(&Settings) -> Option<(Value, Location)>,
) -> Field {
    let mut said: Vec<Said> = layers
        .iter()
        .filter_map(|layer| {
            let (value, at) = pick(layer.settings)?;
            Some(Said { layer: layer.kind.to_string(), at, value, counts: false })
        })
        .collect();
    if let Some(last) = said.last_mut() {
        last.counts = true;
    }
    Field { field: field.to_owned(), value, said }
}

fn list(
    field: &str,
    layers: &[Layer<'_>],
    pick: impl Fn(&Settings) -> (&Vec<crate::model::Located<String>>, bool),
) -> Field {
    let mut said: Vec<Said> = Vec::new();
    for layer in layers {
        let (items, reset) = pick(layer.settings);
        if reset {
            said.iter_mut().for_each(|said| said.counts = false);
        }
        said.extend(items.iter().map(|item| Said {
            layer: layer.kind.to_string(),
            at: item.at.clone(),
            value: json!(item.value),
            counts: true,
        }));
    }
    let value = said.iter().filter(|said| said.counts).map(|said| said.value.clone()).collect();
    Field { field: field.to_owned(), value, said }
}
