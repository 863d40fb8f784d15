//! The strategic merge of kustomize, which is not kubectl's.
//!
//! Lists merge by key where the table of [`crate::schema`] says so and are replaced elsewhere. In a
//! merged list the elements of the patch come first. The rules for lists with two keys (ports) are
//! peculiar and reproduced on purpose: what is an accident there is still what people deploy.

use serde_json::{Map, Value};

use crate::resource::scalar_text;
use crate::schema::{self, SchemaField, SchemaType};
use crate::written::{WrittenDocument, needs_quotes, read_unquoted};

/// A patch that cannot be applied, and the path it fails at.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MergeError {
    pub(crate) path: String,
    pub(crate) message: String,
}

/// A surprise of merging that a user should know.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum MergeOddity {
    /// A patch element for a two-key list was dropped because only one side names the second key.
    LostElement { path: String, key: String },
}

const DIRECTIVE: &str = "$patch";

/// Lists with missing or repeated keys are merged by comparing each with each, so not long ones.
const MOST_ODD_ELEMENTS: usize = 4000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Directive {
    Merge,
    Replace,
    Delete,
}

/// The treatment of an element that leaves the second key of a two-key list out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SecondKey {
    /// As kustomize does: the patch element is lost.
    AsKustomize,
    /// An absent `protocol` is `TCP`, as the API server reads it.
    Defaulted,
}

/// Merges `patch` into `object`; `None` when the patch deletes it.
pub(crate) fn merge_patch(
    object: Map<String, Value>,
    patch: &Map<String, Value>,
    second_key: SecondKey,
    written: &WrittenStyles<'_>,
    oddities: &mut Vec<MergeOddity>,
) -> Result<Option<Map<String, Value>>, MergeError> {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let schema = schema::of_kind(text("apiVersion"), text("kind"));
    let mut merger = Merger { path: Vec::new(), second_key, written, oddities };
    let merged = merger.merge_map(Some(object), patch, schema)?;
    Ok(merged.filter(|map| !map.is_empty()))
}

/// The documents of both sides, to look up how values were written.
pub(crate) struct WrittenStyles<'a> {
    pub(crate) object: Option<WrittenDocument>,
    pub(crate) patch: Option<&'a WrittenDocument>,
}

struct Merger<'a> {
    path: Vec<String>,
    second_key: SecondKey,
    written: &'a WrittenStyles<'a>,
    oddities: &'a mut Vec<MergeOddity>,
}

impl Merger<'_> {
    fn merge_error<T>(&self, message: impl Into<String>) -> Result<T, MergeError> {
        Err(MergeError { path: self.path.join("."), message: message.into() })
    }

    /// Merges a field's value; recursion is bounded by the depth of the parsed documents.
    fn merge_value(
        &mut self,
        base: Option<Value>,
        patch: &Value,
        field: Option<&'static SchemaField>,
    ) -> Result<Option<Value>, MergeError> {
        let base = base.filter(|value| !value.is_null());
        let patch_value = patch;
        match (base, patch) {
            (_, Value::Null) => Ok(None),
            (None, Value::Object(patch)) => {
                Ok(self.merge_map(None, patch, field.and_then(SchemaField::value_type))?.map(Value::Object))
            }
            (Some(Value::Object(base)), Value::Object(patch)) => Ok(self
                .merge_map(Some(base), patch, field.and_then(SchemaField::value_type))?
                .map(Value::Object)),
            (base @ (None | Some(Value::Array(_))), Value::Array(patch)) => {
                let base = match base {
                    Some(Value::Array(base)) => Some(base),
                    _ => None,
                };
                match field.and_then(|field| field.merge_keys.as_ref().map(|keys| (field, keys))) {
                    None => Ok(Some(Value::Array(patch.clone()))),
                    Some((_, keys)) if keys.is_empty() => Ok(Some(Value::Array(merge_sets(base, patch)))),
                    Some((field, keys)) => {
                        Ok(self.keyed_list(base, patch, keys, field.value_type())?.map(Value::Array))
                    }
                }
            }
            (Some(Value::Object(_)), _) => {
                self.merge_error(format!("the object has a mapping here, the patch {}", with_article(patch)))
            }
            (Some(Value::Array(_)), _) => {
                self.merge_error(format!("the object has a list here, the patch {}", with_article(patch)))
            }
            (Some(_), Value::Object(_) | Value::Array(_)) => self
                .merge_error(format!("the object has a plain value here, the patch {}", with_article(patch))),
            (Some(Value::String(text)), Value::Number(_) | Value::Bool(_)) if self.is_quoted(&text) => {
                let key = self.path.last().map_or("", String::as_str);
                let said = self.written.patch.and_then(|patch| patch.text_of(key, patch_value));
                let said = said.map(str::to_owned).or_else(|| scalar_text(patch_value));
                Ok(said.map(Value::String))
            }
            (_, scalar) => Ok(Some(scalar.clone())),
        }
    }

    /// Returns true if a text of the object is in quotes, which stay whatever a patch puts between them.
    fn is_quoted(&self, text: &str) -> bool {
        let key = self.path.last().map_or("", String::as_str);
        match &self.written.object {
            // Only quotes keep it from being a number or the like.
            Some(document) => !read_unquoted(text).is_string() || document.is_quoted(key, text),
            None => needs_quotes(text),
        }
    }

    fn merge_map(
        &mut self,
        base: Option<Map<String, Value>>,
        patch: &Map<String, Value>,
        schema: Option<&'static SchemaType>,
    ) -> Result<Option<Map<String, Value>>, MergeError> {
        let mut merged = match self.read_directive(patch)? {
            Directive::Delete => return Ok(None),
            Directive::Replace => Map::new(),
            Directive::Merge => {
                let mut base = base.unwrap_or_default();
                base.shift_remove(DIRECTIVE);
                base
            }
        };
        if let Some(schema) = schema {
            for (key, value) in merged.iter_mut().filter(|(key, _)| !patch.contains_key(*key)) {
                if let Some(field) = schema.field(key) {
                    self.settle_value(value, field)?;
                }
            }
        }
        for (key, value) in patch {
            if key == DIRECTIVE {
                continue;
            }
            let field = schema.and_then(|schema| schema.field(key));
            // Taking the value out leaves its place in the order free for the merged one.
            let before = merged.get_mut(key).map(Value::take);
            self.path.push(key.clone());
            let after = self.merge_value(before, value, field)?;
            self.path.pop();
            match after {
                Some(after) => {
                    merged.insert(key.clone(), after);
                }
                None => {
                    merged.shift_remove(key);
                }
            }
        }
        Ok(Some(merged))
    }

    /// Merges a part of the object that the patch does not mention: lists with repeated
    /// keys lose elements.
    fn settle_value(&mut self, value: &mut Value, field: &'static SchemaField) -> Result<(), MergeError> {
        match value {
            Value::Object(map) => field.value_type().map_or(Ok(()), |schema| self.settle_map(map, schema)),
            Value::Array(list) => {
                let Some(keys) = field.merge_keys.as_ref().filter(|keys| !keys.is_empty()) else {
                    return Ok(());
                };
                if let Some(schema) = field.value_type() {
                    for element in list.iter_mut() {
                        self.settle_element(element, Some(schema))?;
                    }
                }
                if !is_regular(list, keys) && self.second_key == SecondKey::AsKustomize {
                    let settled =
                        self.keyed_list(Some(std::mem::take(list)), &[], keys, field.value_type())?;
                    *list = settled.unwrap_or_default();
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn settle_map(
        &mut self,
        map: &mut Map<String, Value>,
        schema: &'static SchemaType,
    ) -> Result<(), MergeError> {
        for (key, value) in map.iter_mut() {
            if let Some(field) = schema.field(key) {
                self.settle_value(value, field)?;
            }
        }
        Ok(())
    }

    fn settle_element(
        &mut self,
        element: &mut Value,
        schema: Option<&'static SchemaType>,
    ) -> Result<(), MergeError> {
        match (element, schema) {
            (Value::Object(map), Some(schema)) => self.settle_map(map, schema),
            _ => Ok(()),
        }
    }

    fn read_directive(&self, patch: &Map<String, Value>) -> Result<Directive, MergeError> {
        match patch.get(DIRECTIVE) {
            None => Ok(Directive::Merge),
            Some(value) => match value.as_str() {
                Some("merge") => Ok(Directive::Merge),
                Some("replace") => Ok(Directive::Replace),
                Some("delete") => Ok(Directive::Delete),
                _ => self.merge_error(format!(
                    "unknown `$patch: {}`; it can be `merge`, `replace` or `delete`",
                    scalar_text(value).unwrap_or_default()
                )),
            },
        }
    }

    /// Merges a list by key. `None` removes the field.
    fn keyed_list(
        &mut self,
        base: Option<Vec<Value>>,
        patch: &[Value],
        keys: &[&'static str],
        element: Option<&'static SchemaType>,
    ) -> Result<Option<Vec<Value>>, MergeError> {
        let mut patch: Vec<&Value> = patch.iter().collect();
        let mut own = false;
        let mut base: Vec<Value> = match base {
            // Without a list to patch, the patch's own list is patched with itself.
            None => {
                own = true;
                patch.iter().map(|value| (*value).clone()).collect()
            }
            Some(base) => match self.list_directive(&mut patch)? {
                Directive::Delete => return Ok(None),
                Directive::Replace => {
                    own = true;
                    patch.iter().map(|value| (*value).clone()).collect()
                }
                Directive::Merge => base,
            },
        };
        base.retain(|value| !is_empty(value));
        if self.second_key == SecondKey::Defaulted && keys.len() > 1 {
            return self.defaulted_list(base, &patch, keys, element).map(Some);
        }
        if let [key] = keys
            && let Some(merged) = self.distinct_list(&mut base, own, &patch, key, element)?
        {
            return Ok(Some(merged));
        }
        if base.len() + patch.len() > MOST_ODD_ELEMENTS {
            return self.merge_error(format!(
                "more than {MOST_ODD_ELEMENTS} elements whose keys are not all distinct"
            ));
        }
        let tuples = key_tuples(&patch, &base, keys);
        // Keys that nobody uses do not count: ports without any protocol merge by port alone.
        let used: Vec<usize> =
            (0..keys.len()).filter(|&key| tuples.iter().any(|tuple| !tuple[key].is_empty())).collect();
        let mut items: Vec<Value> = Vec::new();
        if used.len() > 1 {
            self.two_key_items(&mut base, &patch, keys, &used, &tuples, element, &mut items)?;
            for element in base {
                let present: Vec<(&str, String)> = used
                    .iter()
                    .map(|&key| (keys[key], key_text(&element, keys[key])))
                    .filter(|(_, text)| !text.is_empty())
                    .collect();
                let before = items.len();
                items.retain(|item| !present.iter().all(|(key, text)| key_text(item, key) == *text));
                if present.len() < used.len() && before > items.len() + 1 {
                    let tuple: Vec<String> = keys.iter().map(|key| key_text(&element, key)).collect();
                    self.report_lost(keys, &used, &tuple);
                }
                items.push(element);
            }
        } else {
            let key = used.first().map_or(keys[0], |&key| keys[key]);
            let at = used.first().copied().unwrap_or(0);
            for tuple in &tuples {
                let wanted = &tuple[at];
                let merged = self.merge_element(&mut base, &patch, element, &|value| {
                    !wanted.is_empty() && key_text(value, key) == *wanted
                })?;
                match merged {
                    Some(merged) => {
                        replace_or_append(&mut items, merged, &|item| key_text(item, key) == *wanted);
                    }
                    // An element without its key removes every element that has one.
                    None => base.retain(|value| !has_key(value, key, wanted)),
                }
            }
            for element in base {
                let wanted = key_text(&element, key);
                replace_or_append(&mut items, element, &|item| has_key(item, key, &wanted));
            }
        }
        Ok(Some(items))
    }

    /// Merges lists whose elements all have a key of their own: the usual case, in linear time.
    /// `None`, with `base` untouched, for any other.
    fn distinct_list(
        &mut self,
        base: &mut Vec<Value>,
        own: bool,
        patch: &[&Value],
        key: &str,
        element: Option<&'static SchemaType>,
    ) -> Result<Option<Vec<Value>>, MergeError> {
        let distinct = |values: &mut dyn Iterator<Item = &Value>| {
            let mut places = std::collections::HashMap::new();
            for (at, value) in values.enumerate() {
                let text = key_text(value, key);
                if text.is_empty() || places.insert(text, at).is_some() {
                    return None;
                }
            }
            Some(places)
        };
        let (Some(places), Some(_)) = (distinct(&mut base.iter()), distinct(&mut patch.iter().copied()))
        else {
            return Ok(None);
        };
        let mut taken: Vec<Option<Value>> = base.drain(..).map(Some).collect();
        let mut items = Vec::with_capacity(taken.len() + patch.len());
        for theirs in patch {
            let Value::Object(theirs) = theirs else { continue };
            let mine = places
                .get(&theirs.get(key).and_then(scalar_text).unwrap_or_default())
                .and_then(|&at| taken[at].take());
            let merged = match mine {
                Some(mine) if !own && self.read_directive(theirs)? == Directive::Replace => Some(mine),
                Some(Value::Object(mine)) => self.merge_map(Some(mine), theirs, element)?.map(Value::Object),
                _ => self.merge_map(None, theirs, element)?.map(Value::Object),
            };
            items.extend(merged.filter(|value| !is_empty(value)));
        }
        for mut rest in taken.into_iter().flatten() {
            self.settle_element(&mut rest, element)?;
            items.push(rest);
        }
        Ok(Some(items))
    }

    #[expect(clippy::too_many_arguments, reason = "one step of `keyed_list`, taken out for length")]
    fn two_key_items(
        &mut self,
        base: &mut Vec<Value>,
        patch: &[&Value],
        keys: &[&'static str],
        used: &[usize],
        tuples: &[Vec<String>],
        element: Option<&'static SchemaType>,
        items: &mut Vec<Value>,
    ) -> Result<(), MergeError> {
        for tuple in tuples {
            let is_full = used.iter().all(|&key| !tuple[key].is_empty());
            let covered = |other: &Vec<String>| {
                other != tuple && used.iter().all(|&key| tuple[key].is_empty() || tuple[key] == other[key])
            };
            let matches = |value: &Value| used.iter().all(|&key| key_text(value, keys[key]) == tuple[key]);
            if !is_full && tuples.iter().any(covered) {
                // An element without the second key is dropped when another one has it.
                if patch.iter().any(|value| matches(value)) {
                    self.report_lost(keys, used, tuple);
                }
                continue;
            }
            let before =
                if is_full { None } else { base.iter().position(matches).map(|at| (at, base[at].clone())) };
            match (self.merge_element(base, patch, element, &matches)?, before) {
                (Some(merged), _) => replace_or_append(items, merged, &matches),
                (None, Some((at, before))) => base[at] = before,
                (None, None) if is_full => base.retain(|value| !matches(value)),
                (None, None) => {}
            }
        }
        Ok(())
    }

    fn report_lost(&mut self, keys: &[&'static str], used: &[usize], tuple: &[String]) {
        let key = used.iter().find(|&&key| tuple[key].is_empty()).map_or("", |&key| keys[key]);
        self.oddities.push(MergeOddity::LostElement { path: self.path.join("."), key: key.to_owned() });
    }

    /// The sane reading of a two-key list: `protocol` defaults to `TCP` on both sides.
    fn defaulted_list(
        &mut self,
        mut base: Vec<Value>,
        patch: &[&Value],
        keys: &[&'static str],
        element: Option<&'static SchemaType>,
    ) -> Result<Vec<Value>, MergeError> {
        let text = |value: &Value, key: &str| match (key, key_text(value, key)) {
            ("protocol", text) if text.is_empty() => "TCP".to_owned(),
            (_, text) => text,
        };
        let mut added = Vec::new();
        for patch in patch {
            let matches = |value: &Value| keys.iter().all(|key| text(value, key) == text(patch, key));
            let found = base.iter().position(matches);
            let before = found.map(|at| base[at].take());
            let merged = match (before, patch) {
                (before, Value::Object(patch)) => {
                    let before = match before {
                        Some(Value::Object(before)) => Some(before),
                        _ => None,
                    };
                    self.merge_map(before, patch, element)?.filter(|map| !map.is_empty()).map(Value::Object)
                }
                (_, other) => Some((*other).clone()),
            };
            match (found, merged) {
                (Some(at), Some(merged)) => base[at] = merged,
                (Some(at), None) => {
                    base.remove(at);
                }
                (None, Some(merged)) => added.push(merged),
                (None, None) => {}
            }
        }
        added.append(&mut base);
        Ok(added)
    }

    /// Merges the first matching element of the patch into the first matching one of `base`, in place.
    /// `None` when neither side has one or nothing is left of it.
    fn merge_element(
        &mut self,
        base: &mut [Value],
        patch: &[&Value],
        schema: Option<&'static SchemaType>,
        matches: &dyn Fn(&Value) -> bool,
    ) -> Result<Option<Value>, MergeError> {
        let mine = base.iter_mut().find(|value| matches(value));
        let theirs = patch.iter().copied().find(|value| matches(value));
        let merged = match (mine, theirs) {
            (None, None) => None,
            (Some(mine), None) => {
                self.settle_element(mine, schema)?;
                Some(mine.clone())
            }
            (None, Some(Value::Object(theirs))) => self.merge_map(None, theirs, schema)?.map(Value::Object),
            (Some(mine), Some(Value::Object(theirs))) => {
                let replaces = self.read_directive(theirs)? == Directive::Replace;
                let before = if replaces { mine.clone() } else { mine.take() };
                let Value::Object(before) = before else { return Ok(None) };
                let merged = self.merge_map(Some(before), theirs, schema)?.map(Value::Object);
                // `$patch: replace` on an element has no effect: the list keeps the element it had.
                if !replaces {
                    *mine = merged.clone().unwrap_or(Value::Null);
                    if merged.is_none() {
                        // Found again by its key only, to be removed.
                        *mine = Value::Object(theirs.clone());
                    }
                }
                merged
            }
            (_, Some(_)) => None,
        };
        Ok(merged.filter(|value| !is_empty(value)))
    }

    /// Says what the patch's list asks for as a whole. The first element with a directive speaks for the
    /// list if it has nothing else; then every element with the same directive goes, even those that
    /// have more.
    fn list_directive(&self, patch: &mut Vec<&Value>) -> Result<Directive, MergeError> {
        let Some(Value::Object(first)) = patch.iter().copied().find(|value| value.get(DIRECTIVE).is_some())
        else {
            return Ok(Directive::Merge);
        };
        if first.len() > 1 {
            return Ok(Directive::Merge);
        }
        let directive = self.read_directive(first)?;
        let said = first.get(DIRECTIVE);
        patch.retain(|value| value.get(DIRECTIVE) != said);
        Ok(directive)
    }
}

/// Returns true if every element has keys of its own, all of the same keys.
fn is_regular(list: &[Value], keys: &[&str]) -> bool {
    let mut seen = std::collections::HashSet::new();
    let mut shapes = std::collections::HashSet::new();
    list.iter().all(|element| {
        let tuple: Vec<String> = keys.iter().map(|key| key_text(element, key)).collect();
        shapes.insert(tuple.iter().map(String::is_empty).collect::<Vec<bool>>());
        !is_empty(element) && !tuple[0].is_empty() && shapes.len() == 1 && seen.insert(tuple)
    })
}

fn with_article(value: &Value) -> &'static str {
    match value {
        Value::Object(_) => "a mapping",
        Value::Array(_) => "a list",
        _ => "a plain value",
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

/// The text of a key field; empty when it is absent or not a scalar.
fn key_text(value: &Value, key: &str) -> String {
    value.get(key).and_then(scalar_text).unwrap_or_default()
}

/// Returns true if the key is there and, unless `wanted` is empty, has that text.
fn has_key(value: &Value, key: &str, wanted: &str) -> bool {
    match value.get(key) {
        None | Some(Value::Null) => false,
        Some(_) if wanted.is_empty() => true,
        Some(found) => scalar_text(found).is_some_and(|text| text == wanted),
    }
}

/// Replaces every matching item, or appends.
fn replace_or_append(items: &mut Vec<Value>, value: Value, matches: &dyn Fn(&Value) -> bool) {
    let mut found = false;
    for item in items.iter_mut().filter(|item| matches(item)) {
        *item = value.clone();
        found = true;
    }
    if !found {
        items.push(value);
    }
}

/// The key values of all elements, each once, those of the patch first.
fn key_tuples(patch: &[&Value], base: &[Value], keys: &[&str]) -> Vec<Vec<String>> {
    let mut seen = std::collections::HashSet::new();
    let mut tuples = Vec::new();
    for value in patch.iter().copied().chain(base) {
        let tuple: Vec<String> = keys.iter().map(|key| key_text(value, key)).collect();
        if seen.insert(tuple.clone()) {
            tuples.push(tuple);
        }
    }
    tuples
}

/// Merges two sets of scalars, the patch's first.
fn merge_sets(base: Option<Vec<Value>>, patch: &[Value]) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    for value in patch.iter().cloned().chain(base.unwrap_or_default()) {
        if !all.iter().any(|known| scalar_text(known) == scalar_text(&value)) {
            all.push(value);
        }
    }
    all
}
