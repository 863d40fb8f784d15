//! The values of a chart: the user's, the charts' defaults and their coalescing.

pub(crate) mod coalesce;
mod schema;
mod strvals;
mod tree;
mod user;

use serde_json::Value;
use slipway_gotmpl::GoMap;

use crate::error::ChartError;

pub use schema::SchemaSource;
pub(crate) use schema::check_values as check_schema;
pub(crate) use strvals::go_quote;
pub(crate) use tree::ChartNode;
pub use user::{UserValues, is_address};

/// Turns every number into a float: what Helm's decoding of YAML and JSON yields.
pub(crate) fn all_floats(mut value: Value) -> Value {
    make_floats(&mut value);
    value
}

pub(crate) fn make_floats(value: &mut Value) {
    match value {
        Value::Number(number) if !number.is_f64() => {
            if let Some(float) = number.as_f64().and_then(serde_json::Number::from_f64) {
                *number = float;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(make_floats),
        Value::Object(map) => map.values_mut().for_each(make_floats),
        _ => {}
    }
}

/// The Go type a value has inside Helm.
pub(crate) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "nil",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Checks the values against the schemas of every chart in the tree.
pub(crate) fn check_schemas(
    root: &ChartNode<'_>,
    values: &GoMap,
    source: Option<&dyn SchemaSource>,
) -> Result<(), ChartError> {
    let mut text = String::new();
    schema_problems(root, values, source, &mut text);
    if text.is_empty() {
        return Ok(());
    }
    Err(ChartError::Schema(format!(
        "values don't meet the specifications of the schema(s) in the following chart(s):\n{text}"
    )))
}

fn schema_problems(
    node: &ChartNode<'_>,
    values: &GoMap,
    source: Option<&dyn SchemaSource>,
    text: &mut String,
) {
    if let Some(schema) = &node.chart.schema {
        let json = serde_json::to_value(slipway_gotmpl::GoValue::Map(values.clone())).unwrap_or_default();
        let found = schema::check_values(schema, &json, source).unwrap_or_else(String::from);
        if !found.is_empty() {
            text.push_str(&format!("{}:\n{found}", node.name()));
        }
    }
    for child in &node.dependencies {
        let values = coalesce::table_at(values, child.name()).unwrap_or_default();
        schema_problems(child, &values, source, text);
    }
}
