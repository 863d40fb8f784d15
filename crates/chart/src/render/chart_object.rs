//! `.Chart`: Chart.yaml as templates see it.

use std::borrow::Cow;

use slipway_gotmpl::{
    GoList, GoMap, GoObject, GoString, GoValue, ListKind, MapKind, ObjectJson, WholeNumbers,
};

use crate::metadata::{ChartMetadata, Dependency, Maintainer};

/// Helm's nameless struct around the metadata.
pub(super) struct ChartObject {
    metadata: GoValue,
    is_root: bool,
}

impl ChartObject {
    pub(super) fn to_value(metadata: &ChartMetadata, is_root: bool) -> GoValue {
        GoValue::object(Self { metadata: GoValue::object(MetadataObject(metadata.clone())), is_root })
    }

    fn metadata_object(&self) -> Option<&dyn GoObject> {
        match &self.metadata {
            GoValue::Object(object) => Some(object.as_ref()),
            _ => None,
        }
    }
}

impl GoObject for ChartObject {
    fn type_name(&self) -> Cow<'static, str> {
        "struct { chart.Metadata; IsRoot bool }".into()
    }

    fn field_list(&self) -> Vec<(&'static str, GoValue)> {
        vec![("Metadata", self.metadata.clone()), ("IsRoot", GoValue::Bool(self.is_root))]
    }

    fn field_named(&self, name: &str) -> Option<GoValue> {
        match name {
            "IsRoot" => Some(GoValue::Bool(self.is_root)),
            "Metadata" => Some(self.metadata.clone()),
            name => self.metadata_object().and_then(|metadata| metadata.field_named(name)),
        }
    }

    fn json_form(&self) -> ObjectJson {
        let mut members = match self.metadata_object().map(GoObject::json_form) {
            Some(ObjectJson::Fields(members)) => members,
            _ => Vec::new(),
        };
        members.push(("IsRoot".into(), GoValue::Bool(self.is_root)));
        ObjectJson::Fields(members)
    }
}

struct MetadataObject(ChartMetadata);

fn string_list(items: &[String]) -> GoValue {
    if items.is_empty() {
        return GoValue::List(GoList::nil(ListKind::String));
    }
    GoValue::strings(items.iter().map(String::as_str))
}

fn json_fields(json: &serde_json::Value) -> ObjectJson {
    let members = json.as_object().into_iter().flatten();
    ObjectJson::Fields(
        members
            .map(|(key, value)| (key.as_str().into(), GoValue::from_json(value, WholeNumbers::Int64)))
            .collect(),
    )
}

impl MetadataObject {
    fn field_value(&self, name: &str) -> Option<GoValue> {
        let metadata = &self.0;
        let text = |text: &str| Some(GoValue::str(text));
        match name {
            "Name" => text(&metadata.name),
            "Home" => text(&metadata.home),
            "Sources" => Some(string_list(&metadata.sources)),
            "Version" => text(&metadata.version),
            "Description" => text(&metadata.description),
            "Keywords" => Some(string_list(&metadata.keywords)),
            "Maintainers" => {
                let items: Vec<GoValue> = metadata
                    .maintainers
                    .iter()
                    .map(|maintainer| GoValue::ptr(MaintainerObject(maintainer.clone())))
                    .collect();
                Some(pointer_list("*chart.Maintainer", items))
            }
            "Icon" => text(&metadata.icon),
            "APIVersion" => text(&metadata.api_version),
            "Condition" => text(&metadata.condition),
            "Tags" => text(&metadata.tags),
            "AppVersion" => text(&metadata.app_version),
            "Deprecated" => Some(GoValue::Bool(metadata.deprecated)),
            "Annotations" if metadata.annotations.is_empty() => {
                Some(GoValue::Map(GoMap::nil(MapKind::Strings)))
            }
            "Annotations" => {
                let entries = metadata
                    .annotations
                    .iter()
                    .map(|(key, value)| (GoString::from(key.as_str()), GoValue::str(value.as_str())));
                Some(GoValue::Map(GoMap::of(MapKind::Strings, entries.collect())))
            }
            "KubeVersion" => text(&metadata.kube_version),
            "Dependencies" => {
                let items: Vec<GoValue> = metadata
                    .dependencies
                    .iter()
                    .map(|dependency| GoValue::ptr(DependencyObject(dependency.clone())))
                    .collect();
                Some(pointer_list("*chart.Dependency", items))
            }
            "Type" => text(&metadata.chart_type),
            _ => None,
        }
    }
}

fn pointer_list(element: &'static str, items: Vec<GoValue>) -> GoValue {
    let kind = ListKind::Of(element);
    GoValue::List(if items.is_empty() { GoList::nil(kind) } else { GoList::of(kind, items) })
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

impl GoObject for MetadataObject {
    fn type_name(&self) -> Cow<'static, str> {
        "chart.Metadata".into()
    }

    fn field_list(&self) -> Vec<(&'static str, GoValue)> {
        METADATA_FIELDS.into_iter().filter_map(|name| Some((name, self.field_value(name)?))).collect()
    }

    fn field_named(&self, name: &str) -> Option<GoValue> {
        self.field_value(name)
    }

    fn json_form(&self) -> ObjectJson {
        json_fields(&self.0.to_json())
    }
}

struct MaintainerObject(Maintainer);

impl GoObject for MaintainerObject {
    fn type_name(&self) -> Cow<'static, str> {
        "chart.Maintainer".into()
    }

    fn field_list(&self) -> Vec<(&'static str, GoValue)> {
        vec![
            ("Name", GoValue::str(self.0.name.as_str())),
            ("Email", GoValue::str(self.0.email.as_str())),
            ("URL", GoValue::str(self.0.url.as_str())),
        ]
    }

    fn json_form(&self) -> ObjectJson {
        let names = ["name", "email", "url"];
        let members = names.into_iter().zip(self.field_list()).filter(|(_, (_, value))| value.is_true());
        ObjectJson::Fields(members.map(|(name, (_, value))| (GoString::from(name), value)).collect())
    }
}

struct DependencyObject(Dependency);

impl GoObject for DependencyObject {
    fn type_name(&self) -> Cow<'static, str> {
        "chart.Dependency".into()
    }

    fn field_list(&self) -> Vec<(&'static str, GoValue)> {
        let dependency = &self.0;
        let imports: Vec<GoValue> = dependency
            .import_values
            .iter()
            .map(|import| GoValue::from_json(import, WholeNumbers::Float64))
            .collect();
        vec![
            ("Name", GoValue::str(dependency.name.as_str())),
            ("Version", GoValue::str(dependency.version.as_str())),
            ("Repository", GoValue::str(dependency.repository.as_str())),
            ("Condition", GoValue::str(dependency.condition.as_str())),
            ("Tags", string_list(&dependency.tags)),
            ("Enabled", GoValue::Bool(dependency.enabled)),
            (
                "ImportValues",
                if imports.is_empty() {
                    GoValue::List(GoList::nil(ListKind::Any))
                } else {
                    GoValue::list(imports)
                },
            ),
            ("Alias", GoValue::str(dependency.alias.as_str())),
        ]
    }

    fn json_form(&self) -> ObjectJson {
        json_fields(&self.0.to_json())
    }
}
