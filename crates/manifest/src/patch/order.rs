//! The order of list items after a strategic merge.
//!
//! Items the patch names come in the patch's order, items only the server has in the server's. The two
//! are woven together: a server-only item goes first only if it stood before the patch's item on the
//! server; an item new to the server goes at once.

use std::collections::HashMap;

use serde_json::Value;

use super::go_value;

/// Returns the identity of a list item: its merge key, or the value itself.
pub(super) fn item_identity(item: &Value, merge_key: Option<&str>) -> String {
    match merge_key {
        Some(key) => item.get(key).map_or_else(String::new, comparable_text),
        None => comparable_text(item),
    }
}

/// Kubernetes compares merge key values by how they print, so `80` and `"80"` are the same.
fn comparable_text(value: &Value) -> String {
    go_value(value)
}

pub(super) fn item_positions(items: &[Value], merge_key: Option<&str>) -> HashMap<String, usize> {
    let mut positions = HashMap::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        positions.entry(item_identity(item, merge_key)).or_insert(index);
    }
    positions
}

/// Orders `merged`: `wanted` is the order of the patch, `server` the order before it.
pub(super) fn order_items(
    merged: Vec<Value>,
    wanted: &[Value],
    server: &[Value],
    merge_key: Option<&str>,
) -> Vec<Value> {
    let wanted = item_positions(wanted, merge_key);
    let server = item_positions(server, merge_key);
    let mut named = Vec::new();
    let mut server_only = Vec::new();
    for item in merged {
        let identity = item_identity(&item, merge_key);
        let on_server = server.get(&identity).copied();
        match wanted.get(&identity) {
            Some(&place) => named.push((place, on_server, item)),
            None => server_only.push((on_server.unwrap_or(usize::MAX), on_server, item)),
        }
    }
    named.sort_by_key(|(place, ..)| *place);
    server_only.sort_by_key(|(place, ..)| *place);
    let mut ordered = Vec::with_capacity(named.len() + server_only.len());
    let mut named = named.into_iter().peekable();
    let mut server_only = server_only.into_iter().peekable();
    loop {
        let server_first = match (server_only.peek(), named.peek()) {
            (None, None) => return ordered,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some((_, Some(left), _)), Some((_, Some(right), _))) => left < right,
            _ => false,
        };
        let next = if server_first { server_only.next() } else { named.next() };
        ordered.extend(next.map(|(_, _, item)| item));
    }
}
