//! The types of fields: built-in kinds from Kubernetes' own table, custom ones from CRDs.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::Value as Json;
use slipway_manifest::schema::{ScalarType, Shape};
use slipway_manifest::{Schema, TypeRef};

use super::well_known;

/// Kinds a package knows besides the built-in ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct KindTypes {
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
pub(crate) enum ValueForm {
    Scalar(FieldScalar),
    Map,
    List,
    /// Nobody knows.
    Any,
}

#[derive(Clone, Copy, Debug)]
enum TypeSource<'k> {
    Built(TypeRef<'k>),
    Crd(&'k Json),
    CrdRoot(&'k Json),
    UnknownRoot,
    Unknown,
}

/// The type of a field, and which field of which type it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldType<'k> {
    source: TypeSource<'k>,
    /// The Kubernetes type the field belongs to (`DeploymentSpec`), if any.
    pub(crate) owner: &'k str,
    pub(crate) name: &'k str,
    /// The values allowed, if they are few.
    pub(crate) values: &'k [String],
}

/// The type below a field.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ChildType<'k> {
    Known(FieldType<'k>),
    /// The schema has no such field.
    Undeclared,
    /// The field is a single value: nothing is below it.
    Nothing,
}

impl KindTypes {
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
            Some(schema) => TypeSource::CrdRoot(schema),
            None => match Schema::built_in().types().type_of_kind(api_version, kind) {
                Some(shape) => TypeSource::Built(shape),
                None => well_known::schema_of(api_version, kind)
                    .map_or(TypeSource::UnknownRoot, TypeSource::CrdRoot),
            },
        };
        FieldType { source, owner: "", name: "", values: &[] }
    }

    /// Returns true if objects of a kind live in a namespace; `None` if the kind is not known.
    pub(crate) fn is_namespaced(&self, group: &str, kind: &str) -> Option<bool> {
        if let Some((namespaced, _)) = self.scopes.get(&(group.to_owned(), kind.to_owned())) {
            return Some(*namespaced);
        }
        let built_in = SCOPES.get(&(group, kind)).map(|(namespaced, _)| *namespaced);
        built_in.or_else(|| well_known::facts_of(group, kind).map(|known| known.namespaced))
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
        if let Some(known) = well_known::facts_of(group, kind) {
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
        FieldType { source: TypeSource::Unknown, owner: "", name: "", values: &[] }
    }

    fn from_source(source: TypeSource<'k>) -> Self {
        Self { source, owner: "", name: "", values: &[] }
    }

    /// Returns true if nothing is known about the kind.
    pub(crate) fn is_unknown_kind(self) -> bool {
        matches!(self.source, TypeSource::UnknownRoot)
    }

    /// The shape in Kubernetes' table, if it is a built-in type.
    pub(crate) fn built(self) -> Option<TypeRef<'k>> {
        match self.source {
            TypeSource::Built(shape) => Some(shape),
            _ => None,
        }
    }

    /// The schema in a CRD, if it is a custom type.
    pub(crate) fn crd(self) -> Option<&'k Json> {
        match self.source {
            TypeSource::Crd(schema) | TypeSource::CrdRoot(schema) => Some(schema),
            _ => None,
        }
    }

    pub(crate) fn form(self) -> ValueForm {
        match self.source {
            TypeSource::Built(shape) => match shape.shape() {
                Shape::Scalar(scalar) => ValueForm::Scalar(match scalar {
                    ScalarType::Bool => FieldScalar::Bool,
                    ScalarType::Int32 | ScalarType::Int64 => FieldScalar::Integer,
                    ScalarType::Float => FieldScalar::Number,
                    ScalarType::Quantity => FieldScalar::Quantity,
                    ScalarType::IntOrString => FieldScalar::IntOrString,
                    _ => FieldScalar::String,
                }),
                Shape::Map(_) => ValueForm::Map,
                Shape::List(_) => ValueForm::List,
                Shape::Any(_) => ValueForm::Any,
            },
            TypeSource::CrdRoot(_) | TypeSource::UnknownRoot => ValueForm::Map,
            TypeSource::Crd(schema) => {
                if schema["x-kubernetes-int-or-string"].as_bool() == Some(true) {
                    return ValueForm::Scalar(FieldScalar::IntOrString);
                }
                match schema["type"].as_str() {
                    Some("string") => ValueForm::Scalar(FieldScalar::String),
                    Some("boolean") => ValueForm::Scalar(FieldScalar::Bool),
                    Some("integer") => ValueForm::Scalar(FieldScalar::Integer),
                    Some("number") => ValueForm::Scalar(FieldScalar::Number),
                    Some("array") => ValueForm::List,
                    Some("object") => ValueForm::Map,
                    _ => ValueForm::Any,
                }
            }
            TypeSource::Unknown => ValueForm::Any,
        }
    }

    /// The type under a key.
    pub(crate) fn child(self, key: &str) -> ChildType<'k> {
        match self.source {
            TypeSource::Built(shape) => match shape.shape() {
                Shape::Map(map) => match (map.field(key), map.rest) {
                    (Some(field), _) => ChildType::Known(FieldType {
                        source: TypeSource::Built(shape.at(field.shape)),
                        owner: map.name.rsplit('.').next().unwrap_or_default(),
                        name: &field.name,
                        values: &field.values,
                    }),
                    (None, Some(rest)) => {
                        ChildType::Known(Self::from_source(TypeSource::Built(shape.at(rest))))
                    }
                    (None, None) => ChildType::Undeclared,
                },
                Shape::Any(_) => ChildType::Known(FieldType::unknown()),
                Shape::List(_) => ChildType::Undeclared,
                Shape::Scalar(_) => ChildType::Nothing,
            },
            TypeSource::CrdRoot(_) | TypeSource::UnknownRoot if key == "metadata" => match *OBJECT_META {
                Some(meta) => ChildType::Known(FieldType {
                    name: "metadata",
                    ..FieldType::from_source(TypeSource::Built(meta))
                }),
                None => ChildType::Known(FieldType::unknown()),
            },
            TypeSource::CrdRoot(_) if matches!(key, "apiVersion" | "kind") => {
                ChildType::Known(FieldType::unknown())
            }
            TypeSource::Crd(schema) | TypeSource::CrdRoot(schema) => crd_child(schema, key, self.form()),
            TypeSource::UnknownRoot | TypeSource::Unknown => ChildType::Known(FieldType::unknown()),
        }
    }

    /// The type of list elements.
    pub(crate) fn item(self) -> FieldType<'k> {
        match self.source {
            TypeSource::Built(shape) => shape.item().map_or(FieldType::unknown(), |item| FieldType {
                source: if item.is_any() { TypeSource::Unknown } else { TypeSource::Built(item) },
                owner: self.owner,
                name: self.name,
                values: &[],
            }),
            TypeSource::Crd(schema) => schema
                .get("items")
                .map_or(FieldType::unknown(), |items| Self::from_source(TypeSource::Crd(items))),
            _ => FieldType::unknown(),
        }
    }

    /// The type of a map's values, if all have one.
    pub(crate) fn values_of_map(self) -> Option<FieldType<'k>> {
        match self.source {
            TypeSource::Built(shape) => {
                let map = shape.as_map()?;
                if map.fields.is_empty() {
                    map.rest.map(|rest| Self::from_source(TypeSource::Built(shape.at(rest))))
                } else {
                    None
                }
            }
            TypeSource::Crd(schema) => {
                let rest = schema.get("additionalProperties").filter(|rest| rest.is_object())?;
                Some(Self::from_source(TypeSource::Crd(rest)))
            }
            _ => None,
        }
    }

    /// The names of the fields it declares.
    pub(crate) fn fields(self) -> Vec<&'k str> {
        match self.source {
            TypeSource::Built(shape) => shape
                .as_map()
                .map_or_else(Vec::new, |map| map.fields.iter().map(|field| field.name.as_str()).collect()),
            TypeSource::Crd(schema) | TypeSource::CrdRoot(schema) => schema["properties"]
                .as_object()
                .map_or_else(Vec::new, |properties| properties.keys().map(String::as_str).collect()),
            _ => Vec::new(),
        }
    }

    /// The names of the fields that must be there.
    pub(crate) fn required(self) -> Vec<&'k str> {
        match self.source {
            TypeSource::Built(shape) => shape.as_map().map_or_else(Vec::new, |map| {
                map.fields.iter().filter(|field| field.required).map(|field| field.name.as_str()).collect()
            }),
            TypeSource::Crd(schema) | TypeSource::CrdRoot(schema) => {
                schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str).collect()
            }
            _ => Vec::new(),
        }
    }
}

fn crd_child<'k>(schema: &'k Json, key: &str, form: ValueForm) -> ChildType<'k> {
    if let Some(property) = schema["properties"].get(key) {
        let name = schema["properties"]
            .as_object()
            .and_then(|map| map.get_key_value(key))
            .map_or("", |(name, _)| name.as_str());
        return ChildType::Known(FieldType { name, ..FieldType::from_source(TypeSource::Crd(property)) });
    }
    match form {
        ValueForm::Scalar(_) => return ChildType::Nothing,
        ValueForm::List => return ChildType::Undeclared,
        ValueForm::Map | ValueForm::Any => {}
    }
    if let Some(rest) = schema.get("additionalProperties").filter(|rest| rest.is_object()) {
        return ChildType::Known(FieldType::from_source(TypeSource::Crd(rest)));
    }
    let open = schema["x-kubernetes-preserve-unknown-fields"].as_bool() == Some(true)
        || schema["additionalProperties"].as_bool() == Some(true)
        || schema.get("properties").is_none();
    if open { ChildType::Known(FieldType::unknown()) } else { ChildType::Undeclared }
}
