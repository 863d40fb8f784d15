//! The entries of `vars`: values of fields, put wherever `$(NAME)` is written.

use slipway_problem::Location;
use slipway_yaml::YamlNode;

use crate::id::{Gvk, Id};
use crate::kustomization::{Findings, Table};

/// One entry of `vars`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Variable {
    pub(crate) name: String,
    /// The object the value is read from, by any name it ever had.
    pub(crate) object: Id,
    /// The field the value is read from.
    pub(crate) field_path: String,
    pub(crate) at: Location,
}

pub(super) fn read(node: &YamlNode, problems: &mut Findings<'_>) -> Option<Variable> {
    let table = Table::open(node, "vars", &["name", "objref", "fieldref"], problems)?;
    let mut object = Id { gvk: Gvk::default(), namespace: String::new(), name: String::new() };
    let known = ["apiVersion", "group", "version", "kind", "name", "namespace"];
    if let Some(node) = table.get("objref")
        && let Some(reference) = Table::open(node, "objref", &known, problems)
    {
        object.gvk.group = reference.text("group", problems);
        object.gvk.version = reference.text("version", problems);
        object.gvk.kind = reference.text("kind", problems);
        object.name = reference.text("name", problems);
        object.namespace = reference.text("namespace", problems);
        let api_version = reference.text("apiVersion", problems);
        match api_version.split('/').collect::<Vec<_>>().as_slice() {
            [group, version] => {
                (*group).clone_into(&mut object.gvk.group);
                (*version).clone_into(&mut object.gvk.version);
            }
            [version] if !version.is_empty() => (*version).clone_into(&mut object.gvk.version),
            _ => {}
        }
    }
    let mut field_path = String::new();
    if let Some(node) = table.get("fieldref")
        && let Some(field) = Table::open(node, "fieldref", &["fieldPath"], problems)
    {
        field_path = field.text("fieldPath", problems);
    }
    if field_path.is_empty() {
        "metadata.name".clone_into(&mut field_path);
    }
    Some(Variable { name: table.text("name", problems), object, field_path, at: table.at() })
}
