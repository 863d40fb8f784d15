//! The shape of objects: one model for built-in types and for custom resources.

use std::collections::HashMap;

use serde_json::Value;

/// Index of a [`Shape`] in its [`TypeRegistry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ShapeId(pub(crate) u32);

/// The values a field or list item may hold.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    Scalar(ScalarType),
    Map(MapShape),
    List(ListShape),
    /// Anything: maps are granular, lists are atomic.
    Any(AnyForm),
}

/// The kinds of single values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScalarType {
    String,
    Bool,
    Int32,
    Int64,
    Float,
    /// Base64 text in JSON.
    Bytes,
    Time,
    MicroTime,
    Duration,
    Quantity,
    IntOrString,
}

/// The protobuf form of free-form content; its JSON is the same in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnyForm {
    /// A message whose field 1 holds JSON text (`JSON`, `RawExtension`, `FieldsV1`).
    Raw,
    /// A message of alternatives: a schema, or something else.
    SchemaOr(ShapeId, SchemaAlternative),
}

/// The alternative to a schema in a field that takes either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaAlternative {
    /// `JSONSchemaPropsOrBool`
    Bool,
    /// `JSONSchemaPropsOrArray`
    Schemas,
    /// `JSONSchemaPropsOrStringArray`
    Strings,
}

/// A struct (fixed fields), a map (values of one shape), or both.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MapShape {
    /// The short Go name, `v1.PodSpec`; empty for maps and nested custom resource objects.
    pub name: String,
    /// In the order Kubernetes prints them; embedded structs are already laid flat.
    pub fields: Vec<StructField>,
    /// Positions in `fields`, ordered by name.
    pub(crate) by_name: Vec<u16>,
    /// The shape of values under keys that are no field. `None`: there may be no others.
    pub rest: Option<ShapeId>,
    /// Owned and replaced as a whole by server-side apply.
    pub atomic: bool,
    /// Embedded structs, which are nested messages in protobuf: field number and shape.
    pub(crate) embedded: Vec<(u32, ShapeId)>,
}

/// A list and how its items are told apart.
#[derive(Clone, Debug, PartialEq)]
pub struct ListShape {
    pub item: ShapeId,
    pub kind: ListKind,
}

/// The list type of server-side apply (`x-kubernetes-list-type`).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum ListKind {
    #[default]
    Atomic,
    Set,
    /// Items are maps told apart by these fields.
    Map(Vec<String>),
}

/// The rule by which Go leaves a field out of its JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OmitRule {
    #[default]
    Never,
    /// `omitempty`: zero scalars, empty lists and maps, null pointers; never a struct.
    Empty,
    /// `omitzero`: any zero value.
    Zero,
}

/// One field of a struct.
#[derive(Clone, Debug, PartialEq)]
pub struct StructField {
    pub name: String,
    pub shape: ShapeId,
    pub omit: OmitRule,
    /// A Go pointer: absent and zero differ.
    pub pointer: bool,
    pub required: bool,
    /// Protobuf field number, 0 if the field belongs to an embedded struct or has none.
    pub number: u32,
    pub patch: PatchRule,
    /// The values allowed, if they are few.
    pub values: Vec<String>,
    pub default: Option<Value>,
}

/// The treatment of a field by strategic merge patches (`patchStrategy`, `patchMergeKey`).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PatchRule {
    pub merge: bool,
    pub replace: bool,
    pub retain_keys: bool,
    pub merge_key: Option<String>,
}

impl PatchRule {
    /// Reads `merge,retainKeys` and a key.
    pub fn parse(strategy: &str, key: &str) -> Self {
        let has = |word: &str| strategy.split(',').any(|part| part == word);
        Self {
            merge: has("merge"),
            replace: has("replace"),
            retain_keys: has("retainKeys"),
            merge_key: (!key.is_empty()).then(|| key.to_owned()),
        }
    }
}

/// An arena of shapes and the kinds whose objects have them.
#[derive(Clone, Debug, Default)]
pub struct TypeRegistry {
    pub(crate) shapes: Vec<Shape>,
    /// By `apiVersion/Kind`.
    pub(crate) roots: HashMap<String, ShapeId>,
}

impl TypeRegistry {
    /// Finds the shape of a kind's objects.
    pub fn type_of_kind(&self, api_version: &str, kind: &str) -> Option<TypeRef<'_>> {
        let id = *self.roots.get(&format!("{api_version}/{kind}"))?;
        Some(TypeRef { types: self, id })
    }

    /// Points at a shape of this arena.
    pub fn at(&self, id: ShapeId) -> TypeRef<'_> {
        TypeRef { types: self, id }
    }

    /// Every `apiVersion/Kind` known, unordered.
    pub fn roots(&self) -> impl Iterator<Item = (&str, TypeRef<'_>)> {
        self.roots.iter().map(|(key, &id)| (key.as_str(), TypeRef { types: self, id }))
    }

    pub(crate) fn push_shape(&mut self, mut shape: Shape) -> ShapeId {
        if let Shape::Map(map) = &mut shape {
            map.index_fields();
        }
        self.shapes.push(shape);
        ShapeId(self.shapes.len() as u32 - 1)
    }
}

impl MapShape {
    /// Prepares lookup by name.
    pub(crate) fn index_fields(&mut self) {
        self.by_name = (0..self.fields.len() as u16).collect();
        let fields = &self.fields;
        self.by_name.sort_by(|&a, &b| fields[a as usize].name.cmp(&fields[b as usize].name));
    }

    /// Finds a field by its JSON name.
    pub fn field(&self, name: &str) -> Option<&StructField> {
        let found =
            self.by_name.binary_search_by(|&at| self.fields[at as usize].name.as_str().cmp(name)).ok()?;
        Some(&self.fields[self.by_name[found] as usize])
    }
}

/// A shape in its registry: callers walk it together with a value.
#[derive(Clone, Copy)]
pub struct TypeRef<'a> {
    types: &'a TypeRegistry,
    id: ShapeId,
}

impl std::fmt::Debug for TypeRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.shape() {
            Shape::Map(map) if !map.name.is_empty() => write!(f, "TypeRef({})", map.name),
            Shape::Map(_) => f.write_str("TypeRef(map)"),
            Shape::List(list) => write!(f, "TypeRef(list {:?})", list.kind),
            Shape::Scalar(scalar) => write!(f, "TypeRef({scalar:?})"),
            Shape::Any(_) => f.write_str("TypeRef(any)"),
        }
    }
}

static ANYTHING: std::sync::LazyLock<TypeRegistry> = std::sync::LazyLock::new(|| {
    let mut types = TypeRegistry::default();
    types.push_shape(Shape::Any(AnyForm::Raw));
    types
});

impl<'a> TypeRef<'a> {
    /// The shape of content nobody described: maps are granular, lists are atomic.
    pub fn anything() -> TypeRef<'static> {
        ANYTHING.at(ShapeId(0))
    }

    pub fn shape(self) -> &'a Shape {
        &self.types.shapes[self.id.0 as usize]
    }

    pub fn id(self) -> ShapeId {
        self.id
    }

    pub fn types(self) -> &'a TypeRegistry {
        self.types
    }

    /// Points at another shape of the same arena.
    pub fn at(self, id: ShapeId) -> TypeRef<'a> {
        TypeRef { types: self.types, id }
    }

    pub fn is_any(self) -> bool {
        matches!(self.shape(), Shape::Any(_))
    }

    pub fn as_map(self) -> Option<&'a MapShape> {
        if let Shape::Map(map) = self.shape() { Some(map) } else { None }
    }

    pub fn as_list(self) -> Option<&'a ListShape> {
        if let Shape::List(list) = self.shape() { Some(list) } else { None }
    }

    pub fn as_scalar(self) -> Option<ScalarType> {
        if let Shape::Scalar(scalar) = self.shape() { Some(*scalar) } else { None }
    }

    /// The struct field of this name, not counting free map keys.
    pub fn field(self, name: &str) -> Option<&'a StructField> {
        self.as_map()?.field(name)
    }

    /// The shape of what stands under `key`: a field's, the map's value's, or anything below anything.
    pub fn child(self, key: &str) -> Option<TypeRef<'a>> {
        match self.shape() {
            Shape::Map(map) => map.field(key).map(|field| field.shape).or(map.rest).map(|id| self.at(id)),
            Shape::Any(_) => Some(self),
            _ => None,
        }
    }

    /// The shape of list items.
    pub fn item(self) -> Option<TypeRef<'a>> {
        match self.shape() {
            Shape::List(list) => Some(self.at(list.item)),
            Shape::Any(_) => Some(self),
            _ => None,
        }
    }

    /// Walks down a path of field names (list items are stepped into without a segment).
    pub fn descend<'p>(self, path: impl IntoIterator<Item = &'p str>) -> Option<TypeRef<'a>> {
        let mut at = self;
        for segment in path {
            while let Shape::List(list) = at.shape() {
                at = at.at(list.item);
            }
            at = at.child(segment)?;
        }
        Some(at)
    }
}
