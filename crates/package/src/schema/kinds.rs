//! The types of fields: built-in kinds from Kubernetes' own table, custom ones from CRDs.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::Value as Json;
use slipway_manifest::schema::{ScalarType, Shape};
use slipway_manifest::{Schema, TypeRef};

use super::well_known;

/// Kinds a package knows besides the built-in ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kinds {
    /// Schemas by `apiVersion/Kind`.
    crds: HashMap<String, Json>,
    /// Scope and plural name by group and kind.
    scopes: HashMap<(String, String), (bool, String)>,
}

/// Scope and plural name of the built-in kinds, by group and kind.
type Scopes = HashMap<(&'static str, &'static str), (bool, &'static str)>;

static SCOPES: LazyLock<Scopes> = LazyLock::new(|| {
    let mut scopes = HashMap::new();
    for resource in Schema::built_in().resources() {
        let key = (resource.group.as_str(), resource.kind.as_str());
        scopes.entry(key).or_insert((resource.namespaced, resource.plural.as_str()));
    }
    scopes
});

static OBJECT_META: LazyLock<Option<TypeRef<'static>>> =
    LazyLock::new(|| Schema::built_in().types().type_of_kind("v1", "ConfigMap")?.child("metadata"));

/// The type of a single value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldScalar {
    String,
    Bool,
    Integer,
    Number,
    Quantity,
    IntOrString,
}

impl FieldScalar {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::String => "a string",
            Self::Bool => "a boolean",
            Self::Integer => "an integer",
            Self::Number => "a number",
            Self::Quantity => "a quantity",
            Self::IntOrString => "an integer or a string",
        }
    }
}

/// The form of a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Scalar(FieldScalar),
    Map,
    List,
    /// Nobody knows.
    Any,
}

#[derive(Clone, Copy, Debug)]
enum Source<'k> {
    Built(TypeRef<'k>),
    Crd(&'k Json),
    CrdRoot(&'k Json),
    UnknownRoot,
    Unknown,
}

/// The type of a field, and which field of which type it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldType<'k> {
    source: Source<'k>,
    /// The Kubernetes type the field belongs to (`DeploymentSpec`), if any.
    pub(crate) owner: &'k str,
    pub(crate) name: &'k str,
    /// The values allowed, if they are few.
    pub(crate) values: &'k [String],
}

/// The type below a field.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Next<'k> {
    Known(FieldType<'k>),
    /// The schema has no such field.
    Undeclared,
    /// The field is a single value: nothing is below it.
    Nothing,
}

impl Kinds {
    /// Learns the versions of a CustomResourceDefinition; `false` if the object is none.
    pub(crate) fn learn(&mut self, crd: &Json) -> bool {
        if crd.get("kind").and_then(Json::as_str) != Some("CustomResourceDefinition") {
            return false;
        }
        let spec = &crd["spec"];
        let (Some(group), Some(kind)) = (spec["group"].as_str(), spec["names"]["kind"].as_str()) else {
            return false;
        };
        let namespaced = spec["scope"].as_str() != Some("Cluster");
        let plural = spec["names"]["plural"].as_str().unwrap_or_default().to_owned();
        self.scopes.insert((group.to_owned(), kind.to_owned()), (namespaced, plural));
        for version in spec["versions"].as_array().into_iter().flatten() {
            let (Some(name), Some(schema)) =
                (version["name"].as_str(), version["schema"].get("openAPIV3Schema"))
            else {
                continue;
            };
            self.crds.entry(format!("{group}/{name}/{kind}")).or_insert_with(|| schema.clone());
        }
        true
    }

    /// The type of a kind's objects.
    pub(crate) fn of(&self, api_version: &str, kind: &str) -> FieldType<'_> {
        let source = match self.crds.get(&format!("{api_version}/{kind}")) {
            Some(schema) => Source::CrdRoot(schema),
            None => match Schema::built_in().types().type_of_kind(api_version, kind) {
                Some(shape) => Source::Built(shape),
                None => well_known::schema(api_version, kind).map_or(Source::UnknownRoot, Source::CrdRoot),
            },
        };
        FieldType { source, owner: "", name: "", values: &[] }
    }

    /// Returns true if objects of a kind live in a namespace; `None` if the kind is not known.
    pub(crate) fn namespaced(&self, group: &str, kind: &str) -> Option<bool> {
        if let Some((namespaced, _)) = self.scopes.get(&(group.to_owned(), kind.to_owned())) {
            return Some(*namespaced);
        }
        let built_in = SCOPES.get(&(group, kind)).map(|(namespaced, _)| *namespaced);
        built_in.or_else(|| well_known::kind(group, kind).map(|known| known.namespaced))
    }

    /// The plural of a kind, and whether the kind is built in.
    pub(crate) fn plural(&self, group: &str, kind: &str) -> (String, bool) {
        if let Some((_, plural)) = SCOPES.get(&(group, kind)) {
            return ((*plural).to_owned(), true);
        }
        if let Some((_, plural)) = self.scopes.get(&(group.to_owned(), kind.to_owned()))
            && !plural.is_empty()
        {
            return (plural.clone(), false);
        }
        if let Some(known) = well_known::kind(group, kind) {
            return (known.plural.to_owned(), false);
        }
        let lower = kind.to_ascii_lowercase();
        let plural =
            if lower.ends_with('s') || lower.ends_with('x') || lower.ends_with("ch") || lower.ends_with("sh")
            {
                format!("{lower}es")
            } else if lower.ends_with('y') && !lower.ends_with("ey") && !lower.ends_with("ay") {
                format!("{}ies", &lower[..lower.len() - 1])
            } else {
                format!("{lower}s")
            };
        (plural, false)
    }

    /// Returns true if a kind comes from a CRD of the package.
    pub(crate) fn is_custom(&self, group: &str, kind: &str) -> bool {
        self.scopes.contains_key(&(group.to_owned(), kind.to_owned()))
    }
}

impl<'k> FieldType<'k> {
    /// A type nobody described.
    pub(crate) fn unknown() -> FieldType<'static> {
        FieldType { source: Source::Unknown, owner: "", name: "", values: &[] }
    }

    fn plain(source: Source<'k>) -> Self {
        Self { source, owner: "", name: "", values: &[] }
    }

    /// Returns true if nothing is known about the kind.
    pub(crate) fn is_unknown_kind(self) -> bool {
        matches!(self.source, Source::UnknownRoot)
    }

    /// The shape in Kubernetes' table, if it is a built-in type.
    pub(crate) fn built(self) -> Option<TypeRef<'k>> {
        match self.source {
            Source::Built(shape) => Some(shape),
            _ => None,
        }
    }

    /// The schema in a CRD, if it is a custom type.
    pub(crate) fn crd(self) -> Option<&'k Json> {
        match self.source {
            Source::Crd(schema) | Source::CrdRoot(schema) => Some(schema),
            _ => None,
        }
    }

    pub(crate) fn form(self) -> Form {
        match self.source {
            Source::Built(shape) => match shape.shape() {
                Shape::Scalar(scalar) => Form::Scalar(match scalar {
                    ScalarType::Bool => FieldScalar::Bool,
                    ScalarType::Int32 | ScalarType::Int64 => FieldScalar::Integer,
                    ScalarType::Float => FieldScalar::Number,
                    ScalarType::Quantity => FieldScalar::Quantity,
                    ScalarType::IntOrString => FieldScalar::IntOrString,
                    _ => FieldScalar::String,
                }),
                Shape::Map(_) => Form::Map,
                Shape::List(_) => Form::List,
                Shape::Any(_) => Form::Any,
            },
            Source::CrdRoot(_) | Source::UnknownRoot => Form::Map,
            Source::Crd(schema) => {
                if schema["x-kubernetes-int-or-string"].as_bool() == Some(true) {
                    return Form::Scalar(FieldScalar::IntOrString);
                }
                match schema["type"].as_str() {
                    Some("string") => Form::Scalar(FieldScalar::String),
                    Some("boolean") => Form::Scalar(FieldScalar::Bool),
                    Some("integer") => Form::Scalar(FieldScalar::Integer),
                    Some("number") => Form::Scalar(FieldScalar::Number),
                    Some("array") => Form::List,
                    Some("object") => Form::Map,
                    _ => Form::Any,
                }
            }
            Source::Unknown => Form::Any,
        }
    }

    /// The type under a key.
    pub(crate) fn child(self, key: &str) -> Next<'k> {
        match self.source {
            Source::Built(shape) => match shape.shape() {
                Shape::Map(map) => match (map.field(key), map.rest) {
                    (Some(field), _) => Next::Known(FieldType {
                        source: Source::Built(shape.at(field.shape)),
                        owner: map.name.rsplit('.').next().unwrap_or_default(),
                        name: &field.name,
                        values: &field.values,
                    }),
                    (None, Some(rest)) => Next::Known(Self::plain(Source::Built(shape.at(rest)))),
                    (None, None) => Next::Undeclared,
                },
                Shape::Any(_) => Next::Known(FieldType::unknown()),
                Shape::List(_) => Next::Undeclared,
                Shape::Scalar(_) => Next::Nothing,
            },
            Source::CrdRoot(_) | Source::UnknownRoot if key == "metadata" => match *OBJECT_META {
                Some(meta) => {
                    Next::Known(FieldType { name: "metadata", ..FieldType::plain(Source::Built(meta)) })
                }
                None => Next::Known(FieldType::unknown()),
            },
            Source::CrdRoot(_) if matches!(key, "apiVersion" | "kind") => Next::Known(FieldType::unknown()),
            Source::Crd(schema) | Source::CrdRoot(schema) => crd_child(schema, key, self.form()),
            Source::UnknownRoot | Source::Unknown => Next::Known(FieldType::unknown()),
        }
    }

    /// The type of list elements.
    pub(crate) fn item(self) -> FieldType<'k> {
        match self.source {
            Source::Built(shape) => shape.item().map_or(FieldType::unknown(), |item| FieldType {
                source: if item.is_any() { Source::Unknown } else { Source::Built(item) },
                owner: self.owner,
                name: self.name,
                values: &[],
            }),
            Source::Crd(schema) => {
                schema.get("items").map_or(FieldType::unknown(), |items| Self::plain(Source::Crd(items)))
            }
            _ => FieldType::unknown(),
        }
    }

    /// The type of a map's values, if all have one.
    pub(crate) fn values_of_map(self) -> Option<FieldType<'k>> {
        match self.source {
            Source::Built(shape) => {
                let map = shape.as_map()?;
                if map.fields.is_empty() {
                    map.rest.map(|rest| Self::plain(Source::Built(shape.at(rest))))
                } else {
                    None
                }
            }
            Source::Crd(schema) => {
                let rest = schema.get("additionalProperties").filter(|rest| rest.is_object())?;
                Some(Self::plain(Source::Crd(rest)))
            }
            _ => None,
        }
    }

    /// The names of the fields it declares.
    pub(crate) fn fields(self) -> Vec<&'k str> {
        match self.source {
            Source::Built(shape) => shape
                .as_map()
                .map_or_else(Vec::new, |map| map.fields.iter().map(|field| field.name.as_str()).collect()),
            Source::Crd(schema) | Source::CrdRoot(schema) => schema["properties"]
                .as_object()
                .map_or_else(Vec::new, |properties| properties.keys().map(String::as_str).collect()),
            _ => Vec::new(),
        }
    }

    /// The names of the fields that must be there.
    pub(crate) fn required(self) -> Vec<&'k str> {
        match self.source {
            Source::Built(shape) => shape.as_map().map_or_else(Vec::new, |map| {
                map.fields.iter().filter(|field| field.required).map(|field| field.name.as_str()).collect()
            }),
            Source::Crd(schema) | Source::CrdRoot(schema) => {
                schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str).collect()
            }
            _ => Vec::new(),
        }
    }
}

fn crd_child<'k>(schema: &'k Json, key: &str, form: Form) -> Next<'k> {
    if let Some(property) = schema["properties"].get(key) {
        let name = schema["properties"]
            .as_object()
            .and_then(|map| map.get_key_value(key))
            .map_or("", |(name, _)| name.as_str());
        return Next::Known(FieldType { name, ..FieldType::plain(Source::Crd(property)) });
    }
    match form {
        Form::Scalar(_) => return Next::Nothing,
        Form::List => return Next::Undeclared,
        Form::Map | Form::Any => {}
    }
    if let Some(rest) = schema.get("additionalProperties").filter(|rest| rest.is_object()) {
        return Next::Known(FieldType::plain(Source::Crd(rest)));
    }
    let open = schema["x-kubernetes-preserve-unknown-fields"].as_bool() == Some(true)
        || schema["additionalProperties"].as_bool() == Some(true)
        || schema.get("properties").is_none();
    if open { Next::Known(FieldType::unknown()) } else { Next::Undeclared }
}
