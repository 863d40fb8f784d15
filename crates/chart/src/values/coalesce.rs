//! Laying values over defaults through a tree of charts, with Helm's rules for null, tables and
//! globals.
//!
//! Works on shared maps because Helm does: a nested table under `global` is one and the same map in
//! a chart and its subcharts, so what a subchart's defaults add to it shows everywhere.

use slipway_gotmpl::{Map, Numbers, Str, Value};

use super::tree::Node;
use crate::error::{Notice, Notices};

/// What null in the values means.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nulls {
    /// It removes the default: the final values.
    Delete,
    /// It is kept for a later round: merging subcharts' defaults into a parent's.
    Keep,
}

const GLOBAL: &str = "global";

/// The user's values as a tree of shared maps.
pub(crate) fn to_map(values: &serde_json::Map<String, serde_json::Value>) -> Map {
    values.iter().map(|(key, value)| (key.as_str(), Value::from_json(value, Numbers::Int64))).collect()
}

/// A copy that shares nothing.
pub(crate) fn copy(map: &Map) -> Map {
    match Value::Map(map.clone()).deep_copy() {
        Value::Map(map) => map,
        _ => Map::new(),
    }
}

/// Lays `values` over the defaults of `chart` and everything below it.
pub(crate) fn values(
    chart: &Node<'_>,
    values: &Map,
    nulls: Nulls,
    notices: &mut Notices,
) -> Result<Map, String> {
    let result = copy(values);
    Coalesce { notices, last: false }.chart(chart, &result, "", nulls)?;
    Ok(result)
}

/// What the charts are rendered with. The defaults go into it: the tree is not to be asked for values
/// again.
pub(crate) fn final_values(chart: &Node<'_>, values: &Map, notices: &mut Notices) -> Result<Map, String> {
    let result = copy(values);
    Coalesce { notices, last: true }.chart(chart, &result, "", Nulls::Delete)?;
    Ok(result)
}

/// Merges `over` into `into`, whose entries win; nulls stay.
pub(crate) fn merge_tables(into: &Map, from: &Map, notices: &mut Notices) {
    Coalesce { notices, last: false }.tables(into, from, "", Nulls::Keep, 0);
}

/// Lays `over` on `below`: what `over` lacks comes from `below`, its nulls remove.
pub(crate) fn lay_over(over: &Map, below: &Map, notices: &mut Notices) {
    Coalesce { notices, last: false }.tables(over, below, "", Nulls::Delete, 0);
}

struct Coalesce<'n> {
    notices: &'n mut Notices,
    /// Whether the charts' own defaults may be used up.
    last: bool,
}

impl Coalesce<'_> {
    fn warn(&mut self, line: u32, text: String) {
        self.notices.push(Notice(format!("coalesce.go:{line}: {text}")));
    }

    fn chart(&mut self, chart: &Node<'_>, values: &Map, prefix: &str, nulls: Nulls) -> Result<(), String> {
        self.defaults(chart, values, prefix, nulls);
        let below = join(prefix, chart.name());
        for child in &chart.dependencies {
            let name = child.name();
            let own = match values.get(name) {
                None => {
                    let own = Map::new();
                    values.insert(name, Value::Map(own.clone()));
                    own
                }
                Some(Value::Map(own)) => own,
                Some(other) => return Err(format!("type mismatch on {name}: {}", not_a_bool(&other))),
            };
            self.globals(&own, values, &below);
            self.chart(child, &own, &below, nulls)?;
        }
        Ok(())
    }

    fn defaults(&mut self, chart: &Node<'_>, values: &Map, prefix: &str, nulls: Nulls) {
        let path = join(prefix, chart.name());
        let defaults = chart.defaults(self.last);
        for (key, default) in defaults.to_vec() {
            match values.get(&key) {
                None => values.insert(key, default),
                Some(Value::Nil) if nulls == Nulls::Delete => {
                    values.remove(&key);
                }
                Some(Value::Map(table)) => match default {
                    Value::Map(defaults) => {
                        let is_child = chart.dependencies.iter().any(|child| key == *child.name());
                        let nulls = if is_child { Nulls::Keep } else { nulls };
                        self.tables(&table, &defaults, &join(&path, &key.lossy()), nulls, 0);
                    }
                    Value::Nil => {}
                    _ => self.warn(237, format!("warning: skipped value for {path}.{key}: Not a table.")),
                },
                Some(_) => {}
            }
        }
    }

    fn globals(&mut self, into: &Map, from: &Map, prefix: &str) {
        let into_globals = match into.get(GLOBAL) {
            None => Map::new(),
            Some(Value::Map(map)) => map,
            Some(_) => {
                return self.warn(
                    117,
                    format!("warning: skipping globals because destination {GLOBAL} is not a table."),
                );
            }
        };
        let from_globals = match from.get(GLOBAL) {
            None => Map::new(),
            Some(Value::Map(map)) => map,
            Some(_) => {
                return self
                    .warn(124, format!("warning: skipping globals because source {GLOBAL} is not a table."));
            }
        };
        for (key, value) in from_globals.to_vec() {
            match (value, into_globals.get(&key)) {
                (Value::Map(table), there) => {
                    // Only this level is copied: what is nested stays shared.
                    let table: Map = table.to_vec().into_iter().collect();
                    match there {
                        None => into_globals.insert(key, Value::Map(table)),
                        Some(Value::Map(there)) => {
                            self.tables(&table, &there, &join(prefix, &key.lossy()), Nulls::Keep, 0);
                            into_globals.insert(key, Value::Map(table));
                        }
                        Some(_) => self.warn(
                            144,
                            format!(
                                "Conflict: cannot merge map onto non-map for {}. Skipping.",
                                super::go_quote(&key.lossy())
                            ),
                        ),
                    }
                }
                (_, Some(Value::Map(_))) => {
                    self.warn(154, format!("key {key} is table. Skipping"));
                }
                (value, _) => into_globals.insert(key, value),
            }
        }
        into.insert(GLOBAL, Value::Map(into_globals));
    }

    fn tables(&mut self, into: &Map, from: &Map, prefix: &str, nulls: Nulls, depth: usize) {
        if into.id() == from.id() || depth > DEEPEST {
            return;
        }
        for (key, value) in from.to_vec() {
            match (into.get(&key), value) {
                (Some(Value::Nil), _) if nulls == Nulls::Delete => {
                    into.remove(&key);
                }
                (None, value) => into.insert(key, value),
                (Some(Value::Map(there)), Value::Map(value)) => {
                    self.tables(&there, &value, &join(prefix, &key.lossy()), nulls, depth + 1);
                }
                (Some(_), Value::Map(value)) => {
                    let path = join(prefix, &key.lossy());
                    let shown = go_value(&Value::Map(value));
                    self.warn(
                        301,
                        format!("warning: cannot overwrite table with non table for {path} ({shown})"),
                    );
                }
                (Some(Value::Map(_)), value) if !value.is_nil() => {
                    let path = join(prefix, &key.lossy());
                    let shown = go_value(&value);
                    self.warn(
                        305,
                        format!(
                            "warning: destination for {path} is a table. Ignoring non-table value ({shown})"
                        ),
                    );
                }
                _ => {}
            }
        }
    }
}

/// Tables nest no deeper than a YAML document can.
const DEEPEST: usize = 10_000;

fn join(prefix: &str, key: &str) -> String {
    if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") }
}

/// Longer values are not worth showing in a message.
const LONGEST_SHOWN: usize = 1 << 20;

/// `%v` of a value.
fn go_value(value: &Value) -> String {
    let text = slipway_gotmpl::fmt::sprint_value(value, LONGEST_SHOWN).unwrap_or_default();
    String::from_utf8_lossy(&text).into_owned()
}

/// `%t` of something that is no boolean: the accident Helm's message shows.
fn not_a_bool(value: &Value) -> String {
    let text = slipway_gotmpl::fmt::sprintf(b"%t", std::slice::from_ref(value), LONGEST_SHOWN);
    String::from_utf8_lossy(&text.unwrap_or_default()).into_owned()
}

/// The table at a dotted path; the error is Helm's.
pub(crate) fn table(values: &Map, path: &str) -> Result<Map, String> {
    let mut here = values.clone();
    for name in path.split('.') {
        match here.get(name) {
            Some(Value::Map(map)) => here = map,
            _ => return Err(format!("{} is not a table", super::go_quote(name))),
        }
    }
    Ok(here)
}

/// What stands at a dotted path, if it is there and no table.
pub(crate) fn path_value(values: &Map, path: &str) -> Option<Value> {
    let (tables, key) = path.rsplit_once('.').map_or((None, path), |(tables, key)| (Some(tables), key));
    let here = match tables {
        Some(path) => table(values, path).ok()?,
        None => values.clone(),
    };
    here.get(Str::from(key)).filter(|value| !matches!(value, Value::Map(_)))
}
