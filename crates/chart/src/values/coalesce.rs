//! Laying values over defaults through a tree of charts, with Helm's rules for null, tables and
//! globals.
//!
//! Works on shared maps because Helm does: a nested table under `global` is one and the same map in
//! a chart and its subcharts, so what a subchart's defaults add to it shows everywhere.

use slipway_gotmpl::{GoMap, GoString, GoValue, WholeNumbers};

use super::tree::ChartNode;
use crate::error::{LogNotice, Notices};
use slipway_go::GoError;

/// The meaning of null in the values.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum NullHandling {
    /// It removes the default: the final values.
    Delete,
    /// It is kept for a later round: merging subcharts' defaults into a parent's.
    Keep,
}

const GLOBAL: &str = "global";

/// The user's values as a tree of shared maps.
pub(crate) fn to_map(values: &serde_json::Map<String, serde_json::Value>) -> GoMap {
    values.iter().map(|(key, value)| (key.as_str(), GoValue::from_json(value, WholeNumbers::Int64))).collect()
}

/// A copy that shares nothing.
pub(crate) fn deep_copy(map: &GoMap) -> GoMap {
    match GoValue::Map(map.clone()).deep_copy() {
        GoValue::Map(map) => map,
        _ => GoMap::new(),
    }
}

/// Lays `values` over the defaults of `chart` and everything below it.
pub(crate) fn values(
    chart: &ChartNode<'_>,
    values: &GoMap,
    nulls: NullHandling,
    notices: &mut Notices,
) -> Result<GoMap, GoError> {
    let result = deep_copy(values);
    CoalesceRun { notices, last: false }.coalesce_chart(chart, &result, "", nulls)?;
    Ok(result)
}

/// Returns the values the charts are rendered with. It consumes the defaults: the tree is not to be asked for values
/// again.
pub(crate) fn final_values(
    chart: &ChartNode<'_>,
    values: &GoMap,
    notices: &mut Notices,
) -> Result<GoMap, GoError> {
    let result = deep_copy(values);
    CoalesceRun { notices, last: true }.coalesce_chart(chart, &result, "", NullHandling::Delete)?;
    Ok(result)
}

/// Merges `over` into `into`, whose entries win; nulls stay.
pub(crate) fn merge_tables(into: &GoMap, from: &GoMap, notices: &mut Notices) {
    CoalesceRun { notices, last: false }.coalesce_tables(into, from, "", NullHandling::Keep, 0);
}

/// Lays `over` on `below`: what `over` lacks comes from `below`, its nulls remove.
pub(crate) fn lay_over(over: &GoMap, below: &GoMap, notices: &mut Notices) {
    CoalesceRun { notices, last: false }.coalesce_tables(over, below, "", NullHandling::Delete, 0);
}

struct CoalesceRun<'n> {
    notices: &'n mut Notices,
    /// Set if the charts' own defaults may be consumed.
    last: bool,
}

impl CoalesceRun<'_> {
    fn push_notice(&mut self, line: u32, text: String) {
        self.notices.push(LogNotice(format!("coalesce.go:{line}: {text}")));
    }

    fn coalesce_chart(
        &mut self,
        chart: &ChartNode<'_>,
        values: &GoMap,
        prefix: &str,
        nulls: NullHandling,
    ) -> Result<(), GoError> {
        self.coalesce_defaults(chart, values, prefix, nulls);
        let below = join_path(prefix, chart.name());
        for child in &chart.dependencies {
            let name = child.name();
            let own = match values.get(name) {
                None => {
                    let own = GoMap::new();
                    values.insert(name, GoValue::Map(own.clone()));
                    own
                }
                Some(GoValue::Map(own)) => own,
                Some(other) => return Err(format!("type mismatch on {name}: {}", not_a_bool(&other)).into()),
            };
            self.coalesce_globals(&own, values, &below);
            self.coalesce_chart(child, &own, &below, nulls)?;
        }
        Ok(())
    }

    fn coalesce_defaults(
        &mut self,
        chart: &ChartNode<'_>,
        values: &GoMap,
        prefix: &str,
        nulls: NullHandling,
    ) {
        let path = join_path(prefix, chart.name());
        let defaults = chart.take_defaults(self.last);
        for (key, default) in defaults.to_vec() {
            match values.get(&key) {
                None => values.insert(key, default),
                Some(GoValue::Nil) if nulls == NullHandling::Delete => {
                    values.remove(&key);
                }
                Some(GoValue::Map(table)) => match default {
                    GoValue::Map(defaults) => {
                        let is_child = chart.dependencies.iter().any(|child| key == *child.name());
                        let nulls = if is_child { NullHandling::Keep } else { nulls };
                        self.coalesce_tables(&table, &defaults, &join_path(&path, &key.lossy()), nulls, 0);
                    }
                    GoValue::Nil => {}
                    _ => self
                        .push_notice(237, format!("warning: skipped value for {path}.{key}: Not a table.")),
                },
                Some(_) => {}
            }
        }
    }

    fn coalesce_globals(&mut self, into: &GoMap, from: &GoMap, prefix: &str) {
        let into_globals = match into.get(GLOBAL) {
            None => GoMap::new(),
            Some(GoValue::Map(map)) => map,
            Some(_) => {
                return self.push_notice(
                    117,
                    format!("warning: skipping globals because destination {GLOBAL} is not a table."),
                );
            }
        };
        let from_globals = match from.get(GLOBAL) {
            None => GoMap::new(),
            Some(GoValue::Map(map)) => map,
            Some(_) => {
                return self.push_notice(
                    124,
                    format!("warning: skipping globals because source {GLOBAL} is not a table."),
                );
            }
        };
        for (key, value) in from_globals.to_vec() {
            match (value, into_globals.get(&key)) {
                (GoValue::Map(table), there) => {
                    // Only this level is copied: what is nested stays shared.
                    let table: GoMap = table.to_vec().into_iter().collect();
                    match there {
                        None => into_globals.insert(key, GoValue::Map(table)),
                        Some(GoValue::Map(there)) => {
                            self.coalesce_tables(
                                &table,
                                &there,
                                &join_path(prefix, &key.lossy()),
                                NullHandling::Keep,
                                0,
                            );
                            into_globals.insert(key, GoValue::Map(table));
                        }
                        Some(_) => self.push_notice(
                            144,
                            format!(
                                "Conflict: cannot merge map onto non-map for {}. Skipping.",
                                super::go_quote(&key.lossy())
                            ),
                        ),
                    }
                }
                (_, Some(GoValue::Map(_))) => {
                    self.push_notice(154, format!("key {key} is table. Skipping"));
                }
                (value, _) => into_globals.insert(key, value),
            }
        }
        into.insert(GLOBAL, GoValue::Map(into_globals));
    }

    fn coalesce_tables(
        &mut self,
        into: &GoMap,
        from: &GoMap,
        prefix: &str,
        nulls: NullHandling,
        depth: usize,
    ) {
        if into.id() == from.id() || depth > DEEPEST {
            return;
        }
        for (key, value) in from.to_vec() {
            match (into.get(&key), value) {
                (Some(GoValue::Nil), _) if nulls == NullHandling::Delete => {
                    into.remove(&key);
                }
                (None, value) => into.insert(key, value),
                (Some(GoValue::Map(there)), GoValue::Map(value)) => {
                    self.coalesce_tables(&there, &value, &join_path(prefix, &key.lossy()), nulls, depth + 1);
                }
                (Some(_), GoValue::Map(value)) => {
                    let path = join_path(prefix, &key.lossy());
                    let shown = go_value(&GoValue::Map(value));
                    self.push_notice(
                        301,
                        format!("warning: cannot overwrite table with non table for {path} ({shown})"),
                    );
                }
                (Some(GoValue::Map(_)), value) if !value.is_nil() => {
                    let path = join_path(prefix, &key.lossy());
                    let shown = go_value(&value);
                    self.push_notice(
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

fn join_path(prefix: &str, key: &str) -> String {
    if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") }
}

/// Longer values are not worth showing in a message.
const LONGEST_SHOWN: usize = 1 << 20;

/// `%v` of a value.
fn go_value(value: &GoValue) -> String {
    let text = slipway_gotmpl::fmt::sprint_value(value, LONGEST_SHOWN).unwrap_or_default();
    String::from_utf8_lossy(&text).into_owned()
}

/// `%t` of something that is no boolean: the accident Helm's message shows.
fn not_a_bool(value: &GoValue) -> String {
    let text = slipway_gotmpl::fmt::sprintf(b"%t", std::slice::from_ref(value), LONGEST_SHOWN);
    String::from_utf8_lossy(&text.unwrap_or_default()).into_owned()
}

/// The table at a dotted path; the error is Helm's.
pub(crate) fn table_at(values: &GoMap, path: &str) -> Result<GoMap, GoError> {
    let mut here = values.clone();
    for name in path.split('.') {
        match here.get(name) {
            Some(GoValue::Map(map)) => here = map,
            _ => return Err(format!("{} is not a table", super::go_quote(name)).into()),
        }
    }
    Ok(here)
}

/// Returns the value at a dotted path, if it is there and no table.
pub(crate) fn path_value(values: &GoMap, path: &str) -> Option<GoValue> {
    let (tables, key) = path.rsplit_once('.').map_or((None, path), |(tables, key)| (Some(tables), key));
    let here = match tables {
        Some(path) => table_at(values, path).ok()?,
        None => values.clone(),
    };
    here.get(GoString::from(key)).filter(|value| !matches!(value, GoValue::Map(_)))
}
