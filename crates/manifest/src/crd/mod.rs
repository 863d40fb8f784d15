//! Custom resources: their structural schemas checked, and their objects pruned, defaulted and validated.
//!
//! [`CustomResource`] is a schema ready for use. Its [`kind`](CustomResource::kind) is the same
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

pub use compile::Structural;
pub use definition::check_definition;
pub use formats::unknown_formats;
pub use rules::{Rule, RuleCheck, RuleFailure};
pub use structural::check_schema;

use crate::depth::{self, TooDeep};
use crate::field_error::FieldError;
use crate::schema::{TypeRef, Types};

/// The schema of one version of a custom resource.
#[derive(Clone, Debug)]
pub struct CustomResource {
    types: Types,
    root: String,
    kind: String,
    schema: Structural,
}

impl CustomResource {
    /// Prepares the `openAPIV3Schema` of a version. Without one everything is kept and nothing checked.
    ///
    /// The schema is taken as it is: [`check_schema`] says whether a server would accept it.
    pub fn new(api_version: &str, kind: &str, schema: Option<&Value>) -> Result<Self, TooDeep> {
        if let Some(schema) = schema {
            depth::check(schema)?;
        }
        let schema = match schema {
            Some(schema) => Structural::read(schema),
            None => Structural::anything(),
        };
        let types = compile::types(api_version, kind, &schema);
        Ok(Self { types, root: api_version.to_owned(), kind: kind.to_owned(), schema })
    }

    /// The type of its objects.
    pub fn kind(&self) -> TypeRef<'_> {
        self.types.kind(&self.root, &self.kind).unwrap_or(TypeRef::anything())
    }

    /// Drops fields the schema does not have and names them: `unknown field "spec.foo"`.
    pub fn prune(&self, object: &mut Value) -> Result<Vec<String>, TooDeep> {
        depth::check(object)?;
        Ok(prune::prune(object, &self.schema))
    }

    /// Sets defaults, also where null stands that may not.
    pub fn default(&self, object: &mut Value) -> Result<(), TooDeep> {
        depth::check(object)?;
        default::fill(object, &self.schema);
        Ok(())
    }

    /// Checks the values of an object.
    pub fn validate(&self, object: &Value) -> Result<Vec<FieldError>, TooDeep> {
        depth::check(object)?;
        Ok(validate::object(object, &self.schema))
    }

    /// The same in two steps, as a server takes them: values, then items that stand twice.
    pub fn validate_in_steps(&self, object: &Value) -> Result<[Vec<FieldError>; 2], TooDeep> {
        depth::check(object)?;
        Ok([validate::values(object, &self.schema), validate::items(object, &self.schema)])
    }

    /// Whether any `x-kubernetes-validations` stand in the schema.
    pub fn has_rules(&self) -> bool {
        rules::any(&self.schema)
    }

    /// Runs the `x-kubernetes-validations` rules with a checker. `errors` are those of
    /// [`CustomResource::validate`]: some keep rules from being run, which is reported, too.
    pub fn check_rules(
        &self,
        object: &Value,
        old: Option<&Value>,
        errors: &[FieldError],
        checker: &dyn RuleCheck,
    ) -> Result<Vec<FieldError>, TooDeep> {
        depth::check(object)?;
        if let Some(old) = old {
            depth::check(old)?;
        }
        Ok(rules::check(object, old, &self.schema, errors, checker))
    }
}
