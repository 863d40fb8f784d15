//! `replacements`: values copied from one object into others.

use serde_json::{Map, Value};
use slipway_problem::{Location, Problem, Problems};

use crate::growth::GrowthBudget;
use crate::id::{DEFAULT_NAMESPACE, Gvk, ResourceId};
use crate::resource::{PastName, Resource, scalar_text};
use crate::selector::LabelRequirements;
use crate::written::{go_float, is_float, read_unquoted};
use slipway_problem::ProblemReason;

/// Selects objects; empty parts mean any. Compared literally with every name an object had.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplacementSelector {
    pub(crate) gvk: Gvk,
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) labels: LabelRequirements,
    pub(crate) annotations: LabelRequirements,
}

impl ReplacementSelector {
    fn is_id(&self, id: &ResourceId, namespace: &str) -> bool {
        (self.name.is_empty() || self.name == id.name)
            && (self.namespace.is_empty() || self.namespace == namespace)
            && id.gvk.is_selected_by(&self.gvk)
    }

    fn matches(&self, resource: &Resource) -> bool {
        let is_past = |past: &PastName| {
            let id = resource.past_id(past);
            self.is_id(&id, id.effective_namespace())
        };
        // What has no namespace counts as in `default` under its current name, even if it can be in none.
        let current = resource.current_id();
        let namespace = Some(current.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        self.labels.hold_for(resource.labels())
            && self.annotations.hold_for(resource.annotations())
            && (resource.past.iter().any(is_past)
                || self.is_id(&current, namespace.unwrap_or(DEFAULT_NAMESPACE)))
    }

    fn describe(&self) -> String {
        let mut parts = Vec::new();
        for (key, value) in [
            ("group", &self.gvk.group),
            ("version", &self.gvk.version),
            ("kind", &self.gvk.kind),
            ("name", &self.name),
            ("namespace", &self.namespace),
        ] {
            if !value.is_empty() {
                parts.push(format!("{key}: {value}"));
            }
        }
        parts.join(", ")
    }
}

/// Chooses a piece of a value, and says if missing fields are made.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplacementOptions {
    pub(crate) delimiter: String,
    pub(crate) index: i64,
    pub(crate) create: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct ReplacementSource {
    pub(crate) select: ReplacementSelector,
    pub(crate) field_path: String,
    pub(crate) options: ReplacementOptions,
}

#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) select: ReplacementSelector,
    pub(crate) reject: Vec<ReplacementSelector>,
    pub(crate) field_paths: Vec<String>,
    pub(crate) options: ReplacementOptions,
    pub(crate) at: Location,
}

#[derive(Clone, Debug)]
pub(crate) struct Replacement {
    pub(crate) source: ReplacementSource,
    pub(crate) targets: Vec<Target>,
    pub(crate) at: Location,
}

pub(crate) fn apply_replacement(
    resources: &mut [Resource],
    replacement: &Replacement,
    problems: &mut Problems,
) {
    let source = &replacement.source;
    let mut copied = match source_value(resources, source) {
        Ok((value, text)) => CopiedValue { value, text, from: None },
        Err(message) => {
            problems.push(Problem::error(message).at(replacement.at.clone()));
            return;
        }
    };
    let mut budget = GrowthBudget::of(resources.iter());
    for target in &replacement.targets {
        let mut found = false;
        for resource in resources.iter_mut() {
            if !target.select.matches(resource) || target.reject.iter().any(|reject| reject.matches(resource))
            {
                continue;
            }
            found = true;
            // A source that is its own target changes what is copied after it.
            let is_source = source.options.delimiter.is_empty() && source.select.matches(resource);
            copied.from = is_source.then(|| split_path(&source.field_path));
            for path in &target.field_paths {
                let result = resource.change_shared(|resource| {
                    copy_value(&mut copied, &mut resource.value, path, &target.options, &mut budget).map(
                        |grown| {
                            resource.grown += grown;
                            if let (true, Some(FieldSegment::Field(key))) =
                                (target.options.create, split_path(path).last())
                            {
                                resource.untagged.push((key.clone(), copied.text.clone()));
                            }
                        },
                    )
                });
                if let Err(message) = result {
                    problems.push(
                        Problem::error(format!("`{}`: {message}", resource.current_id()))
                            .at(target.at.clone()),
                    );
                }
            }
        }
        if !found {
            let wanted = target.select.describe();
            problems.push(
                Problem::warning(format!("no object matches this replacement target ({wanted})"))
                    .code("KZ011")
                    .at(target.at.clone()),
            );
        }
    }
}

/// A value to copy, with its text as it was written and, in the object it is from, the path to it.
struct CopiedValue {
    value: Value,
    text: String,
    from: Option<Vec<FieldSegment>>,
}

/// The value of the source, and its text as it was written.
fn source_value(
    resources: &[Resource],
    source: &ReplacementSource,
) -> Result<(Value, String), ProblemReason> {
    let mut matching = resources.iter().filter(|resource| source.select.matches(resource));
    let wanted = source.select.describe();
    let Some(found) = matching.next() else {
        return Err(format!("no object matches this replacement source ({wanted})").into());
    };
    if let Some(second) = matching.next() {
        return Err(format!(
            "more than one object matches this replacement source ({wanted}): `{}` and `{}`",
            found.current_id(),
            second.current_id()
        )
        .into());
    }
    let path = split_path(&source.field_path);
    if path.contains(&FieldSegment::Every) {
        return Err(format!("`{}` names several fields; a source is one", source.field_path).into());
    }
    let mut value = None;
    let whole = &mut Value::Object(found.value.clone());
    visit_path(whole, &path, PathRules { create: None, by: MatchMode::Text }, false, &mut |found, _| {
        if value.is_none() {
            value = Some(found.clone());
        }
        Ok(())
    })?;
    let value = value
        .filter(|value| match value {
            Value::Null => false,
            Value::Array(list) => !list.is_empty(),
            Value::Object(map) => !map.is_empty(),
            _ => true,
        })
        .ok_or_else(|| {
            format!("replacement source `{}` has no `{}`", found.current_id(), source.field_path)
        })?;
    // Strings are their own text, and mappings and lists have none.
    let has_form = matches!(value, Value::Null | Value::Bool(_) | Value::Number(_));
    let written = match (&found.document, path.last()) {
        (Some(document), Some(FieldSegment::Field(key))) if has_form => document.text_of(key, &value),
        _ => None,
    };
    let text = match (&found.document, &value) {
        // A JSON patch made a float of every number.
        (None, Value::Number(number)) => number.as_f64().map(go_float),
        _ => written.map(str::to_owned).or_else(|| scalar_text(&value)),
    };
    if source.options.delimiter.is_empty() {
        // A mapping or list has no text of its own, and none is what a plain field gets.
        return Ok((value, text.unwrap_or_default()));
    }
    let text = text.ok_or("a delimiter can only split a plain value")?;
    let pieces: Vec<&str> = text.split(&source.options.delimiter).collect();
    usize::try_from(source.options.index)
        .ok()
        .and_then(|index| pieces.get(index))
        .map(|piece| (Value::String((*piece).to_owned()), (*piece).to_owned()))
        .ok_or_else(|| {
            ProblemReason::from(format!(
                "`{text}` has no piece {} between `{}`",
                source.options.index, source.options.delimiter
            ))
        })
}

fn copy_value(
    copied: &mut CopiedValue,
    object: &mut Map<String, Value>,
    path: &str,
    options: &ReplacementOptions,
    budget: &mut GrowthBudget,
) -> Result<usize, ProblemReason> {
    let segments = split_path(path);
    // Annotations are text, whatever it looks like.
    let is_annotation = matches!(segments.as_slice(), [FieldSegment::Field(first), FieldSegment::Field(second), _]
        if first == "metadata" && second == "annotations");
    let like = options.create.then(|| copied.value.clone());
    let create = like.as_ref();
    let mut whole = Value::Object(std::mem::take(object));
    let mut source: *const Value = std::ptr::null();
    if let Some(from) = &copied.from {
        let how = PathRules { create: None, by: MatchMode::Text };
        // Gone by now, it is nobody's target.
        let _ = visit_path(&mut whole, from, how, false, &mut |found, _| {
            if source.is_null() {
                source = found;
            }
            Ok(())
        });
    }
    let (mut count, mut grown) = (0, 0);
    let result = visit_path(
        &mut whole,
        &segments,
        PathRules { create, by: MatchMode::Pattern },
        false,
        &mut |target, created| {
            count += 1;
            grown += match target {
                Value::Array(_) | Value::Object(_) => budget.spend(&copied.value, segments.len()),
                Value::String(before) if !options.delimiter.is_empty() => {
                    budget.spend_bytes(before.len() + copied.text.len())
                }
                _ => budget.spend_bytes(copied.text.len()),
            }
            .map_err(|error| error.to_string())?;
            if created && is_annotation && target.is_null() {
                *target = Value::String(String::new());
            }
            set_value(target, &copied.value, &copied.text, options, created)?;
            // What was just made is no source, even if it lies where the source lay before.
            if !created && std::ptr::eq(source, target) {
                copied.value = target.clone();
                copied.text = scalar_text(target).unwrap_or_default();
            }
            Ok(())
        },
    );
    if let Value::Object(changed) = whole {
        *object = changed;
    }
    result?;
    if count == 0 {
        Err(format!("there is no `{path}` to replace; `create: true` would make it").into())
    } else {
        Ok(grown)
    }
}

/// Puts `value` into a found field. A scalar keeps its own type and only takes the text.
fn set_value(
    target: &mut Value,
    value: &Value,
    text: &str,
    options: &ReplacementOptions,
    created: bool,
) -> Result<(), ProblemReason> {
    let is_scalar = !matches!(target, Value::Array(_) | Value::Object(_));
    if !is_scalar {
        if !options.delimiter.is_empty() {
            return Err("a delimiter can only be used with a plain value".into());
        }
        *target = value.clone();
        return Ok(());
    }
    let mut text = text.to_owned();
    if !options.delimiter.is_empty() {
        let before = scalar_text(target).unwrap_or_default();
        let mut pieces: Vec<&str> = before.split(&options.delimiter).collect();
        match usize::try_from(options.index) {
            Err(_) => pieces.insert(0, &text),
            Ok(index) if index >= pieces.len() => pieces.push(&text),
            Ok(index) => pieces[index] = &text,
        }
        text = pieces.join(&options.delimiter);
    }
    *target = match target {
        // A made field has no type of its own: the text is read as if it stood in a file.
        Value::Null if created => read_unquoted(&text),
        Value::Null => return Err(format!("`{text}` is put where there is null").into()),
        Value::Number(before) => match read_unquoted(&text) {
            Value::Number(_) if !before.is_f64() && is_float(&text) => {
                return Err(format!("`{text}` is put where an integer is").into());
            }
            Value::Number(after) => Value::Number(after),
            _ => return Err(format!("`{text}` is put where a number is").into()),
        },
        Value::Bool(_) => match read_unquoted(&text) {
            Value::Bool(after) => Value::Bool(after),
            _ => return Err(format!("`{text}` is put where a boolean is").into()),
        },
        _ => Value::String(text),
    };
    Ok(())
}

/// One step of a field path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum FieldSegment {
    Field(String),
    /// `[key=value]`: elements of a list.
    Where(String, String),
    /// `*`: every element or value.
    Every,
}

/// Splits at dots; brackets hold a key with dots or a `key=value`, `\.` is a dot.
fn split_path(path: &str) -> Vec<FieldSegment> {
    let mut segments = Vec::new();
    let mut part = String::new();
    let mut letters = path.chars().peekable();
    let mut depth = 0_usize;
    let mut bracketed = false;
    let mut finish = |part: &mut String, bracketed: &mut bool| {
        let text = std::mem::take(part);
        let was_bracketed = std::mem::take(bracketed);
        if text.is_empty() {
            return;
        }
        segments.push(match text.split_once('=') {
            Some((key, value)) if was_bracketed => {
                FieldSegment::Where(key.to_owned(), value.trim_matches(['\'', '"']).to_owned())
            }
            _ if text == "*" => FieldSegment::Every,
            _ => FieldSegment::Field(text),
        });
    };
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if letters.peek() == Some(&'.') => {
                letters.next();
                part.push('.');
            }
            '[' => {
                if depth == 0 {
                    finish(&mut part, &mut bracketed);
                    bracketed = true;
                } else {
                    part.push(letter);
                }
                depth += 1;
            }
            ']' if depth > 0 => {
                depth -= 1;
                if depth > 0 {
                    part.push(letter);
                }
            }
            '.' if depth == 0 => finish(&mut part, &mut bracketed),
            other => part.push(other),
        }
    }
    finish(&mut part, &mut bracketed);
    segments
}

/// The comparison `[key=value]` stands for.
#[derive(Clone, Copy)]
enum MatchMode {
    /// The value is the text of the key: so it is in sources.
    Text,
    /// The value is a regular expression that matches somewhere: so it is in targets.
    Pattern,
}

/// The rules a path is followed by.
#[derive(Clone, Copy)]
struct PathRules<'v> {
    /// With a value, missing steps are made, the last one like that value.
    create: Option<&'v Value>,
    by: MatchMode,
}

/// Calls `found` with every value the path leads to. With `create`, missing steps are made, the last
/// one like that value, and `found` is told so.
fn visit_path(
    value: &mut Value,
    path: &[FieldSegment],
    how: PathRules<'_>,
    created: bool,
    found: &mut dyn FnMut(&mut Value, bool) -> Result<(), ProblemReason>,
) -> Result<(), ProblemReason> {
    let Some((first, rest)) = path.split_first() else { return found(value, created) };
    match (first, value) {
        (FieldSegment::Field(name), Value::Object(map)) => {
            let mut created = created;
            if map.get(name).is_none_or(|value| value.is_null() && !rest.is_empty())
                && let Some(like) = how.create
            {
                map.insert(name.clone(), missing_step(rest, like));
                created = true;
            }
            match map.get_mut(name) {
                Some(value) => visit_path(value, rest, how, created, found),
                None => Ok(()),
            }
        }
        (FieldSegment::Field(name), Value::Array(list)) => match (name.as_str(), name.parse::<usize>()) {
            ("-", _) if matches!(how.by, MatchMode::Text) => {
                list.last_mut().map_or(Ok(()), |value| visit_path(value, rest, how, created, found))
            }
            (_, Ok(index)) => {
                let length = list.len();
                if let Some(like) = how.create.filter(|_| index == length) {
                    list.push(missing_step(rest, like));
                    return list.last_mut().map_or(Ok(()), |value| visit_path(value, rest, how, true, found));
                }
                match list.get_mut(index) {
                    Some(value) => visit_path(value, rest, how, created, found),
                    None => Err(format!("there is no element {index} in a list of {length}").into()),
                }
            }
            (name, Err(_)) => {
                Err(format!("`{name}` is looked for in a list; `*` or `[key=value]` names its elements")
                    .into())
            }
        },
        (FieldSegment::Where(key, wanted), Value::Array(list)) => {
            let pattern = match how.by {
                MatchMode::Pattern => slipway_go::regexp::compile_text_pattern(wanted, 1 << 20).ok(),
                MatchMode::Text => None,
            };
            let is_wanted = |text: String| {
                pattern.as_ref().map_or_else(|| text == *wanted, |pattern| pattern.is_match(&text))
            };
            let matches = |element: &Value| element.get(key).and_then(scalar_text).is_some_and(&is_wanted);
            let by_value = |element: &Value| key.is_empty() && scalar_text(element).is_some_and(&is_wanted);
            if how.create.is_some() && !list.iter().any(matches) && !list.iter().any(by_value) {
                let mut element = Map::new();
                element.insert(key.clone(), Value::String(wanted.clone()));
                list.push(Value::Object(element));
            }
            list.iter_mut()
                .filter(|element| matches(element) || by_value(element))
                .try_for_each(|element| visit_path(element, rest, how, created, found))
        }
        (FieldSegment::Every, Value::Array(list)) => {
            list.iter_mut().try_for_each(|element| visit_path(element, rest, how, created, found))
        }
        (_, Value::Null) => Ok(()),
        (segment, _) => Err(format!("{} leads into a plain value", segment_text(segment)).into()),
    }
}

fn segment_text(segment: &FieldSegment) -> String {
    match segment {
        FieldSegment::Field(name) => format!("`{name}`"),
        FieldSegment::Where(key, value) => format!("`[{key}={value}]`"),
        FieldSegment::Every => "`*`".to_owned(),
    }
}

/// Makes a missing step: a list if the next step picks elements, a mapping if it names a field,
/// otherwise something like the value to come.
fn missing_step(rest: &[FieldSegment], like: &Value) -> Value {
    match rest.first() {
        Some(FieldSegment::Where(..) | FieldSegment::Every) => Value::Array(Vec::new()),
        Some(FieldSegment::Field(_)) => Value::Object(Map::new()),
        None => match like {
            Value::Object(_) => Value::Object(Map::new()),
            Value::Array(_) => Value::Array(Vec::new()),
            _ => Value::Null,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_split() {
        let field = |text: &str| FieldSegment::Field(text.to_owned());
        for (path, expected) in [
            ("metadata.name", vec![field("metadata"), field("name")]),
            (
                "a.[name=x.y].b",
                vec![field("a"), FieldSegment::Where("name".into(), "x.y".into()), field("b")],
            ),
            ("a[name=x].b", vec![field("a"), FieldSegment::Where("name".into(), "x".into()), field("b")]),
            ("a.*.b.0", vec![field("a"), FieldSegment::Every, field("b"), field("0")]),
            ("metadata.annotations.[a.b/c]", vec![field("metadata"), field("annotations"), field("a.b/c")]),
            (r"metadata.annotations.a\.b/c", vec![field("metadata"), field("annotations"), field("a.b/c")]),
        ] {
            assert_eq!(split_path(path), expected, "{path}");
        }
    }
}
