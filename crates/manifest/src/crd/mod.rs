//! Custom resources: their structural schemas checked, and their objects pruned, defaulted and validated.
//!
//! [`CustomResource`] is a schema ready for use. Its [`object_type`](CustomResource::object_type) is the same
//! [`TypeRef`] built-in types have, so that apply, compare and strict decoding work for it, too.

mod compile;
mod default;
mod definition;
mod formats;
mod prune;
mod rules;
mod structural;
mod validate;

use serde_json::Value;

pub use compile::StructuralSchema;
pub use definition::check_definition;
pub use formats::unknown_formats;
pub use rules::{RuleChecker, RuleFailure, ValidationRule};
pub use structural::check_schema;

use crate::depth::{self, TooDeep};
use crate::field_error::FieldError;
use crate::schema::{TypeRef, TypeRegistry};

/// The schema of one version of a custom resource.
#[derive(Clone, Debug)]
pub struct CustomResource {
    types: TypeRegistry,
    root: String,
    kind: String,
    schema: StructuralSchema,
}

impl CustomResource {
    /// Prepares the `openAPIV3Schema` of a version. Without one everything is kept and nothing checked.
    ///
    /// The schema is taken as it is: [`check_schema`] says whether a server would accept it.
    pub fn new(api_version: &str, kind: &str, schema: Option<&Value>) -> Result<Self, TooDeep> {
        if let Some(schema) = schema {
            depth::check_depth(schema)?;
        }
        let schema = match schema {
            Some(schema) => StructuralSchema::parse(schema),
            None => StructuralSchema::anything(),
        };
        let types = compile::build_types(api_version, kind, &schema);
        Ok(Self { types, root: api_version.to_owned(), kind: kind.to_owned(), schema })
    }

    /// The type of its objects.
    pub fn object_type(&self) -> TypeRef<'_> {
        self.types.type_of_kind(&self.root, &self.kind).unwrap_or(TypeRef::anything())
    }

    /// Drops fields the schema does not have and names them: `unknown field "spec.foo"`.
    pub fn prune_unknown_fields(&self, object: &mut Value) -> Result<Vec<String>, TooDeep> {
        depth::check_depth(object)?;
        Ok(prune::prune_object(object, &self.schema))
    }

    /// Sets defaults, also where null stands that may not.
    pub fn set_defaults(&self, object: &mut Value) -> Result<(), TooDeep> {
        depth::check_depth(object)?;
        default::set_defaults(object, &self.schema);
        Ok(())
    }

    /// Checks the values of an object.
    pub fn validate(&self, object: &Value) -> Result<Vec<FieldError>, TooDeep> {
        depth::check_depth(object)?;
        Ok(validate::validate_object(object, &self.schema))
    }

    /// The same in two steps, as a server takes them: values, then items that stand twice.
    pub fn validate_in_steps(&self, object: &Value) -> Result<[Vec<FieldError>; 2], TooDeep> {
        depth::check_depth(object)?;
        Ok([validate::validate_values(object, &self.schema), validate::validate_items(object, &self.schema)])
    }

    /// Returns true if the schema has any `x-kubernetes-validations`.
    pub fn has_rules(&self) -> bool {
        rules::has_rules(&self.schema)
    }

    /// Runs the `x-kubernetes-validations` rules with a checker. `errors` are those of
    /// [`CustomResource::validate`]: some keep rules from being run, which is reported, too.
    pub fn check_rules(
        &self,
        object: &Value,
        old: Option<&Value>,
        errors: &[FieldError],
        checker: &dyn RuleChecker,
    ) -> Result<Vec<FieldError>, TooDeep> {
        depth::check_depth(object)?;
        if let Some(old) = old {
            depth::check_depth(old)?;
        }
        Ok(rules::check_rules(object, old, &self.schema, errors, checker))
    }
}
