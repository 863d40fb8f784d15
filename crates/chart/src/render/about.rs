//! `.Chart`: Chart.yaml as templates see it.

use std::borrow::Cow;

use slipway_gotmpl::{Json, List, ListKind, Map, MapKind, Numbers, Object, Str, Value};

use crate::metadata::{Dependency, Maintainer, Metadata};

/// Helm's nameless struct around the metadata.
pub(super) struct About {
    metadata: Value,
    is_root: bool,
}

impl About {
    pub(super) fn value(metadata: &Metadata, is_root: bool) -> Value {
        Value::object(Self { metadata: Value::object(MetadataObject(metadata.clone())), is_root })
    }

    fn inner(&self) -> Option<&dyn Object> {
        match &self.metadata {
            Value::Object(object) => Some(object.as_ref()),
            _ => None,
        }
    }
}

impl Object for About {
    fn type_name(&self) -> Cow<'static, str> {
        "struct { chart.Metadata; IsRoot bool }".into()
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        vec![("Metadata", self.metadata.clone()), ("IsRoot", Value::Bool(self.is_root))]
    }

    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "IsRoot" => Some(Value::Bool(self.is_root)),
            "Metadata" => Some(self.metadata.clone()),
            name => self.inner().and_then(|metadata| metadata.field(name)),
        }
    }

    fn json(&self) -> Json {
        let mut members = match self.inner().map(Object::json) {
            Some(Json::Fields(members)) => members,
            _ => Vec::new(),
        };
        members.push(("IsRoot".into(), Value::Bool(self.is_root)));
        Json::Fields(members)
    }
}

struct MetadataObject(Metadata);

fn strings(items: &[String]) -> Value {
    if items.is_empty() {
        return Value::List(List::nil(ListKind::String));
    }
    Value::strings(items.iter().map(String::as_str))
}

fn json_fields(json: &serde_json::Value) -> Json {
    let members = json.as_object().into_iter().flatten();
    Json::Fields(
        members.map(|(key, value)| (key.as_str().into(), Value::from_json(value, Numbers::Int64))).collect(),
    )
}

impl MetadataObject {
    fn one(&self, name: &str) -> Option<Value> {
        let metadata = &self.0;
        let text = |text: &str| Some(Value::str(text));
        match name {
            "Name" => text(&metadata.name),
            "Home" => text(&metadata.home),
            "Sources" => Some(strings(&metadata.sources)),
            "Version" => text(&metadata.version),
            "Description" => text(&metadata.description),
            "Keywords" => Some(strings(&metadata.keywords)),
            "Maintainers" => {
                let items: Vec<Value> = metadata
                    .maintainers
                    .iter()
                    .map(|maintainer| Value::ptr(MaintainerObject(maintainer.clone())))
                    .collect();
                Some(pointers("*chart.Maintainer", items))
            }
            "Icon" => text(&metadata.icon),
            "APIVersion" => text(&metadata.api_version),
            "Condition" => text(&metadata.condition),
            "Tags" => text(&metadata.tags),
            "AppVersion" => text(&metadata.app_version),
            "Deprecated" => Some(Value::Bool(metadata.deprecated)),
            "Annotations" if metadata.annotations.is_empty() => Some(Value::Map(Map::nil(MapKind::Strings))),
            "Annotations" => {
                let entries = metadata
                    .annotations
                    .iter()
                    .map(|(key, value)| (Str::from(key.as_str()), Value::str(value.as_str())));
                Some(Value::Map(Map::of(MapKind::Strings, entries.collect())))
            }
            "KubeVersion" => text(&metadata.kube_version),
            "Dependencies" => {
                let items: Vec<Value> = metadata
                    .dependencies
                    .iter()
                    .map(|dependency| Value::ptr(DependencyObject(dependency.clone())))
                    .collect();
                Some(pointers("*chart.Dependency", items))
            }
            "Type" => text(&metadata.chart_type),
            _ => None,
        }
    }
}

fn pointers(element: &'static str, items: Vec<Value>) -> Value {
    let kind = ListKind::Of(element);
    Value::List(if items.is_empty() { List::nil(kind) } else { List::of(kind, items) })
}

const METADATA_FIELDS: [&str; 17] = [
    "Name",
    "Home",
    "Sources",
    "Version",
    "Description",
    "Keywords",
    "Maintainers",
    "Icon",
    "APIVersion",
    "Condition",
    "Tags",
    "AppVersion",
    "Deprecated",
    "Annotations",
    "KubeVersion",
    "Dependencies",
    "Type",
];

impl Object for MetadataObject {
    fn type_name(&self) -> Cow<'static, str> {
        "chart.Metadata".into()
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        METADATA_FIELDS.into_iter().filter_map(|name| Some((name, self.one(name)?))).collect()
    }

    fn field(&self, name: &str) -> Option<Value> {
        self.one(name)
    }

    fn json(&self) -> Json {
        json_fields(&self.0.to_json())
    }
}

struct MaintainerObject(Maintainer);

impl Object for MaintainerObject {
    fn type_name(&self) -> Cow<'static, str> {
        "chart.Maintainer".into()
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("Name", Value::str(self.0.name.as_str())),
            ("Email", Value::str(self.0.email.as_str())),
            ("URL", Value::str(self.0.url.as_str())),
        ]
    }

    fn json(&self) -> Json {
        let names = ["name", "email", "url"];
        let members = names.into_iter().zip(self.fields()).filter(|(_, (_, value))| value.truth());
        Json::Fields(members.map(|(name, (_, value))| (Str::from(name), value)).collect())
    }
}

struct DependencyObject(Dependency);

impl Object for DependencyObject {
    fn type_name(&self) -> Cow<'static, str> {
        "chart.Dependency".into()
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        let dependency = &self.0;
        let imports: Vec<Value> = dependency
            .import_values
            .iter()
            .map(|import| Value::from_json(import, Numbers::Float64))
            .collect();
        vec![
            ("Name", Value::str(dependency.name.as_str())),
            ("Version", Value::str(dependency.version.as_str())),
            ("Repository", Value::str(dependency.repository.as_str())),
            ("Condition", Value::str(dependency.condition.as_str())),
            ("Tags", strings(&dependency.tags)),
            ("Enabled", Value::Bool(dependency.enabled)),
            (
                "ImportValues",
                if imports.is_empty() { Value::List(List::nil(ListKind::Any)) } else { Value::list(imports) },
            ),
            ("Alias", Value::str(dependency.alias.as_str())),
        ]
    }

    fn json(&self) -> Json {
        json_fields(&self.0.to_json())
    }
}
