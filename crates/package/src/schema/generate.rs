//! The schema of a package's parameters: inferred, traced, then corrected by hand.

use std::collections::HashMap;

use serde_json::{Map, Value as Json, json};
use slipway_problem::{Location, Problems};

use super::infer::{Demand, Node, infer};
use super::kinds::{FieldScalar, FieldType, Form, Next};
use super::overlay::{Constraint, Format, constraint};
use super::trace::{Usage, UsageKind};
use crate::params::{Params, raw};
use crate::report::{note, warning};
use crate::template::{ParamPath, ParamStep, Template};
use crate::val::{Data, Val};

/// Most usages shown with a parameter.
const MOST_USES: usize = 5;

/// The schema of a package's parameters.
#[derive(Clone, Debug)]
pub struct ParameterSchema {
    pub(crate) root: Node,
    title: String,
    digest: String,
}

/// Puts the schema together. `package` are the parameters without any override.
pub(crate) fn generate(
    name: &str,
    digest: &str,
    package: &Params,
    usages: &[Usage<'_>],
    overrides: &[(Json, Location)],
    problems: &mut Problems,
) -> ParameterSchema {
    let mut root = infer("", &package.root);
    let links = aliases(&package.layers.package);
    for usage in usages {
        let mut members = vec![usage.param.clone()];
        members.extend(linked(&links, &usage.param));
        for member in members {
            if let Some(node) = find(&mut root, &member) {
                demand(node, usage, &member, problems);
            }
        }
    }
    for (manual, at) in overrides {
        overlay(&mut root, manual, "", at, problems);
    }
    ParameterSchema { root, title: format!("{name} parameters"), digest: digest.to_owned() }
}

/// Parameters that are whole references to others, both ways.
fn aliases(tree: &Val) -> HashMap<String, Vec<ParamPath>> {
    let mut links: HashMap<String, Vec<ParamPath>> = HashMap::new();
    let mut pending = vec![(ParamPath(Vec::new()), tree)];
    while let Some((path, val)) = pending.pop() {
        match &val.data {
            Data::Text(Template::Whole(target)) if raw(tree, target).is_some() => {
                links.entry(path.to_string()).or_default().push(target.clone());
                links.entry(target.to_string()).or_default().push(path);
            }
            Data::Map(map) => {
                for (key, value) in map {
                    let mut path = path.clone();
                    path.0.push(ParamStep::Key(key.clone()));
                    pending.push((path, value));
                }
            }
            _ => {}
        }
    }
    links
}

/// Everything linked to a parameter, itself not included.
fn linked(links: &HashMap<String, Vec<ParamPath>>, path: &ParamPath) -> Vec<ParamPath> {
    const MOST: usize = 200;
    let mut found: Vec<ParamPath> = Vec::new();
    let mut pending = vec![path.clone()];
    while let Some(at) = pending.pop() {
        for next in links.get(&at.to_string()).into_iter().flatten() {
            if next != path && !found.contains(next) && found.len() < MOST {
                found.push(next.clone());
                pending.push(next.clone());
            }
        }
    }
    found
}

fn find<'n>(root: &'n mut Node, path: &ParamPath) -> Option<&'n mut Node> {
    path.0.iter().try_fold(root, |node, step| match step {
        ParamStep::Key(key) => node.properties.get_mut(key),
        ParamStep::Index(_) => node.items.as_deref_mut(),
    })
}

fn use_once(node: &mut Node, usage: &Usage<'_>) {
    node.used_by.push(usage.shown.clone());
}

/// Adds what one usage asks for.
fn demand(node: &mut Node, usage: &Usage<'_>, path: &ParamPath, problems: &mut Problems) {
    use_once(node, usage);
    match usage.kind {
        UsageKind::Text | UsageKind::Name => {}
        UsageKind::Switch => {
            node.traced = true;
            want(node, Demand::Boolean, usage, path, problems);
            describe(node, "Switches it on or off.", &usage.field);
        }
        UsageKind::Amount => {
            node.traced = true;
            want(node, Demand::Number, usage, path, problems);
        }
        UsageKind::Field(ty) => constrain(node, ty, usage, path, problems, 0),
    }
}

/// Notes a type no cast can give, and complains if another usage needs a different one.
fn want(node: &mut Node, demand: Demand, usage: &Usage<'_>, path: &ParamPath, problems: &mut Problems) {
    match &node.demand {
        None => node.demand = Some((demand, usage.shown.clone())),
        Some((known, first)) if *known != demand => {
            let numeric = |demand: Demand| matches!(demand, Demand::Integer | Demand::Number);
            if numeric(*known) && numeric(demand) {
                node.demand = Some((Demand::Integer, first.clone()));
                return;
            }
            let message = format!(
                "parameter `{path}` cannot be both {} ({first}) and {} ({})",
                known.name(),
                demand.name(),
                usage.shown
            );
            let file = usage.shown.split(':').next().unwrap_or_default().to_owned();
            let line = usage.shown.split([':', ' ']).nth(1).and_then(|line| line.parse().ok()).unwrap_or(0);
            problems.push(warning("KS012", message).at(Location::new(file, line, 1)));
        }
        Some(_) => {}
    }
}

fn describe(node: &mut Node, sentence: &str, field: &str) {
    if !node.keywords.contains_key("description") {
        let text = if sentence.is_empty() {
            format!("(from {field})")
        } else {
            format!("{sentence} (from {field})")
        };
        node.keywords.insert("description".to_owned(), Json::String(text));
    }
}

/// Intersects a parameter with the field it goes to. Depth is that of the parameter.
fn constrain(
    node: &mut Node,
    ty: FieldType<'_>,
    usage: &Usage<'_>,
    path: &ParamPath,
    problems: &mut Problems,
    depth: usize,
) {
    if depth > 100 {
        return;
    }
    let form = ty.form();
    if form == Form::Any {
        if depth == 0 {
            let message = format!("`{path}` goes to {}, whose type is not known", usage.field);
            problems.push(note("KS011", message));
        }
        return;
    }
    node.traced = true;
    describe(node, sentence(ty.name), &usage.field);
    match form {
        Form::Scalar(scalar) => {
            match scalar {
                FieldScalar::Bool => want(node, Demand::Boolean, usage, path, problems),
                FieldScalar::Integer => want(node, Demand::Integer, usage, path, problems),
                FieldScalar::Number => want(node, Demand::Number, usage, path, problems),
                FieldScalar::Quantity => node.format = Some(Format::Quantity),
                FieldScalar::IntOrString => {
                    node.keywords.insert("type".to_owned(), json!(["integer", "string"]));
                }
                FieldScalar::String => {}
            }
            rules(node, ty);
        }
        Form::List => {
            want(node, Demand::List, usage, path, problems);
            let items = node.items.get_or_insert_with(Box::default);
            constrain(items, ty.item(), usage, path, problems, depth + 1);
        }
        Form::Map => {
            want(node, Demand::Map, usage, path, problems);
            if let Some(values) = ty.values_of_map() {
                node.open = true;
                let rest = node.rest.get_or_insert_with(Box::default);
                let mut quiet = Problems::new();
                constrain(rest, values, usage, path, &mut quiet, depth + 1);
                if let Form::Scalar(FieldScalar::String) = values.form() {
                    rest.keywords.insert("type".to_owned(), json!("string"));
                }
                let labels = matches!(ty.name, "labels" | "matchLabels" | "nodeSelector");
                if labels {
                    rest.format = Some(Format::LabelValue);
                }
                for child in node.properties.values_mut() {
                    constrain(child, values, usage, path, &mut quiet, depth + 1);
                    if labels && !child.properties.is_empty() {
                        continue;
                    }
                    child.format = if labels { Some(Format::LabelValue) } else { child.format };
                }
                return;
            }
            node.declared.extend(ty.fields().into_iter().map(str::to_owned));
            for (key, child) in &mut node.properties {
                if let Next::Known(below) = ty.child(key) {
                    let mut inner = path.clone();
                    inner.0.push(ParamStep::Key(key.clone()));
                    constrain(child, below, usage, &inner, problems, depth + 1);
                }
            }
        }
        Form::Any => {}
    }
}

/// Ranges, word lists and forms.
fn rules(node: &mut Node, ty: FieldType<'_>) {
    if let Some(schema) = ty.crd() {
        for keyword in ["enum", "minimum", "maximum", "pattern", "minLength", "maxLength"] {
            if let Some(value) = schema.get(keyword) {
                node.keywords.insert(keyword.to_owned(), value.clone());
            }
        }
    }
    match constraint(ty.owner, ty.name) {
        Some(Constraint::Min(least)) => {
            node.keywords.insert("minimum".to_owned(), json!(least));
        }
        Some(Constraint::Range(least, most)) => {
            node.keywords.insert("minimum".to_owned(), json!(least));
            node.keywords.insert("maximum".to_owned(), json!(most));
        }
        Some(Constraint::Words(words)) => {
            node.keywords.insert("enum".to_owned(), json!(words));
        }
        Some(Constraint::Form(format)) => {
            if format == Format::PortOrName {
                node.keywords.insert("minimum".to_owned(), json!(1));
                node.keywords.insert("maximum".to_owned(), json!(65535));
            }
            node.format = Some(format);
        }
        None if !ty.values.is_empty() => {
            node.keywords.insert("enum".to_owned(), json!(ty.values));
        }
        None => {}
    }
}

/// One sentence on everyday fields.
fn sentence(field: &str) -> &'static str {
    match field {
        "replicas" => "Number of desired pods.",
        "image" => "Container image.",
        "imagePullPolicy" => "When the image is pulled.",
        "containerPort" => "Port the container listens on.",
        "port" => "Port number.",
        "targetPort" => "Port of the pods, by number or name.",
        "nodePort" => "Port opened on every node.",
        "type" => "Which of the allowed types.",
        "schedule" => "When it runs, in cron form.",
        "secretName" => "Name of a Secret.",
        "serviceAccountName" => "ServiceAccount the pods run as.",
        "storageClassName" => "StorageClass of the volume.",
        "ingressClassName" => "Class of the ingress controller.",
        "hosts" => "Host names.",
        "host" => "Host name.",
        "initialDelaySeconds" => "Seconds before the first probe.",
        "periodSeconds" => "Seconds between probes.",
        "timeoutSeconds" => "Seconds until a probe counts as failed.",
        "nodeSelector" => "Labels of the nodes pods may run on.",
        "tolerations" => "Taints the pods tolerate.",
        "resources" => "Compute resources of the container.",
        "securityContext" => "Security settings.",
        "labels" => "Labels of the object.",
        "annotations" => "Annotations of the object.",
        "namespace" => "Namespace of the object.",
        "name" => "Name of the object.",
        "value" => "Value of the variable.",
        "minReplicas" => "Fewest pods.",
        "maxReplicas" => "Most pods.",
        _ => "",
    }
}

/// Lays a hand-written partial schema over a generated one.
fn overlay(node: &mut Node, manual: &Json, path: &str, at: &Location, problems: &mut Problems) {
    let Some(manual) = manual.as_object() else { return };
    for (keyword, value) in manual {
        match keyword.as_str() {
            "properties" => {
                for (key, schema) in value.as_object().into_iter().flatten() {
                    let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    match node.properties.get_mut(key) {
                        Some(child) => {
                            overlay(child, schema, &path, at, problems);
                            if schema["x-kurel-required"].as_bool() == Some(true)
                                && !node.required.contains(key)
                            {
                                node.required.push(key.clone());
                            }
                        }
                        None => {
                            problems.push(
                                warning("KS014", format!("the schema names `{path}`, which is no parameter"))
                                    .at(at.clone()),
                            );
                        }
                    }
                }
            }
            "items" => overlay(node.items.get_or_insert_with(Box::default), value, path, at, problems),
            "additionalProperties" => {
                node.manual = true;
                match value {
                    Json::Bool(open) => {
                        node.open = *open;
                        node.closed = !open;
                    }
                    schema => {
                        node.open = true;
                        overlay(node.rest.get_or_insert_with(Box::default), schema, path, at, problems);
                    }
                }
            }
            "x-kurel-required" => {}
            _ => {
                node.manual = true;
                if keyword == "type"
                    && let Some((demand, usage)) = &node.demand
                    && value.as_str().is_some_and(|kind| kind != demand.name())
                {
                    let message =
                        format!("the schema says `{path}` is {value}, but {usage} needs {}", demand.name());
                    problems.push(warning("KS013", message).at(at.clone()));
                }
                if keyword == "type" {
                    node.demand = None;
                }
                if matches!(keyword.as_str(), "pattern" | "format" | "type") {
                    node.format = None;
                }
                if value.is_null() {
                    node.keywords.shift_remove(keyword);
                    if keyword == "type" {
                        node.keywords.insert("x-kurel-any".to_owned(), Json::Bool(true));
                    }
                } else {
                    node.keywords.insert(keyword.clone(), value.clone());
                }
            }
        }
    }
}

impl ParameterSchema {
    /// The node of a parameter.
    pub(crate) fn at(&self, path: &[ParamStep]) -> Option<&Node> {
        path.iter().try_fold(&self.root, |node, step| match step {
            ParamStep::Key(key) => node.properties.get(key),
            ParamStep::Index(_) => node.items.as_deref(),
        })
    }

    /// Returns true if a key the package does not name may stand at `path`.
    pub(crate) fn allows(&self, path: &ParamPath) -> bool {
        let Some((ParamStep::Key(last), parent)) = path.0.split_last() else { return true };
        // Below something the package does not name, whoever named it answers.
        self.at(parent).is_none_or(|node| node.open || node.rest.is_some() || node.declared.contains(last))
    }

    /// Returns true if a hand-written schema closes the map `path` is in.
    pub(crate) fn forbids(&self, path: &ParamPath) -> bool {
        let Some((_, parent)) = path.0.split_last() else { return false };
        self.at(parent).is_some_and(|node| node.closed)
    }

    /// As a JSON Schema (draft 7) for editors, keys sorted.
    pub fn to_json(&self) -> Json {
        let mut json = write(&self.root);
        if let Some(map) = json.as_object_mut() {
            map.insert("$schema".to_owned(), json!("http://json-schema.org/draft-07/schema#"));
            map.insert("title".to_owned(), json!(self.title));
            map.insert("additionalProperties".to_owned(), json!(!self.root.closed));
            map.insert("x-kurel".to_owned(), json!({"inputs": self.digest, "kubernetes": KUBERNETES}));
        }
        sorted(json)
    }

    /// As the text of a file: two spaces, a line break at the end.
    pub fn to_text(&self) -> String {
        let mut text = serde_json::to_string_pretty(&self.to_json()).unwrap_or_default();
        text.push('\n');
        text
    }

    /// The digest of what it was made from.
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

/// The version of the built-in types.
const KUBERNETES: &str = "1.37";

fn write(node: &Node) -> Json {
    let mut out = node.keywords.clone();
    let any = out.shift_remove("x-kurel-any").is_some();
    if let Some((demand, _)) = &node.demand {
        out.insert("type".to_owned(), json!(demand.name()));
    }
    if let Some(format) = node.format {
        if format == Format::Quantity {
            let text = out.get("default").is_none_or(Json::is_string);
            out.insert("type".to_owned(), if text { json!("string") } else { json!(["string", "number"]) });
            out.insert("x-kurel-format".to_owned(), json!("quantity"));
        }
        if let Some(pattern) = format.pattern() {
            out.insert("pattern".to_owned(), json!(pattern));
        }
    }
    if any {
        out.shift_remove("type");
    }
    let mut required = node.required.clone();
    if !node.properties.is_empty() {
        let properties: Map<String, Json> =
            node.properties.iter().map(|(key, child)| (key.clone(), write(child))).collect();
        out.insert("properties".to_owned(), Json::Object(properties));
    }
    required.sort();
    if !required.is_empty() {
        out.insert("required".to_owned(), json!(required));
    }
    if let Some(items) = &node.items {
        out.insert("items".to_owned(), write(items));
    }
    if let Some(rest) = &node.rest {
        let mut rest = write(rest);
        if let Some(map) = rest.as_object_mut() {
            map.shift_remove("description");
            map.shift_remove("x-kurel-source");
        }
        out.insert("additionalProperties".to_owned(), rest);
    } else if node.closed {
        out.insert("additionalProperties".to_owned(), json!(false));
    } else if node.open {
        out.insert("additionalProperties".to_owned(), json!(true));
    }
    let source = match (node.traced, node.manual) {
        (false, false) => "inferred",
        (true, false) => "traced",
        (false, true) => "manual",
        (true, true) => "mixed",
    };
    out.insert("x-kurel-source".to_owned(), json!(source));
    if !node.used_by.is_empty() {
        let mut shown: Vec<String> = node.used_by.iter().take(MOST_USES).cloned().collect();
        if node.used_by.len() > MOST_USES {
            shown.push(format!("and {} more", node.used_by.len() - MOST_USES));
        }
        out.insert("x-kurel-used-by".to_owned(), json!(shown));
    }
    Json::Object(out)
}

pub(crate) fn sorted(value: Json) -> Json {
    match value {
        Json::Object(map) => {
            let mut entries: Vec<(String, Json)> =
                map.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Json::Object(entries.into_iter().collect())
        }
        Json::Array(items) => Json::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}
