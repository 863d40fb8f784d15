//! Finding, inserting and deleting the elements of a list.

use serde_json::Value as Json;

use super::eval::{Did, Fault, Slot, Walk};
use super::ready::{ReadyAnchor, ReadyOp, ReadyTerm};
use super::seg::{Seg, item_seg};
use crate::report::listed;
use crate::schema::FieldType;
use crate::val::Pos;

impl Walk<'_, '_> {
    pub(super) fn list_op(&mut self, mut slot: Slot<'_>, ty: FieldType<'_>) -> Result<(), Fault> {
        let ready = self.ready;
        let Some(node) = slot.get_mut() else {
            if matches!(ready.op, ReadyOp::DeleteAnchor(_) | ReadyOp::DeleteNamed(_)) {
                let problem =
                    self.problem("KX030", self.pos, format!("{} is not there to delete from", self.shown()));
                return self.absent(problem);
            }
            if let Some(list) = self.fresh(ty)? {
                slot.put(list.clone());
                self.record(Did::Set, None, Some(list));
            }
            return Ok(());
        };
        if let (Json::Object(map), ReadyOp::DeleteNamed(name)) = (&mut *node, &ready.op) {
            return match map.shift_remove(name) {
                Some(old) => {
                    self.path.push(Seg::Key(name.clone()));
                    self.record(Did::Delete, Some(old), None);
                    self.path.pop();
                    Ok(())
                }
                None => {
                    let keys: Vec<&str> = map.keys().map(String::as_str).collect();
                    let hint = format!("keys present: {}", listed(&keys, 8));
                    let problem = self.problem(
                        "KX030",
                        self.pos,
                        format!("{} has no key `{name}` to delete", self.shown()),
                    );
                    self.absent(problem.hint(hint))
                }
            };
        }
        let Json::Array(items) = node else {
            let message = format!("{} is {}, not a list", self.shown(), crate::val::type_name(node));
            return Err(self.problem("KX031", self.pos, message).into());
        };
        let index = match &ready.op {
            ReadyOp::Append => items.len(),
            ReadyOp::Before(ReadyAnchor::Index(index)) if *index <= items.len() => *index,
            ReadyOp::After(ReadyAnchor::Index(index)) if *index < items.len() => index + 1,
            ReadyOp::DeleteAnchor(ReadyAnchor::Index(index)) if *index < items.len() => *index,
            ReadyOp::Before(ReadyAnchor::Index(index)) | ReadyOp::After(ReadyAnchor::Index(index)) => {
                let message = format!("no position {index} in {}", self.shown());
                let problem =
                    self.problem("KX020", self.pos, message).hint(format!("it has {} elements", items.len()));
                return self.absent(problem);
            }
            ReadyOp::DeleteAnchor(ReadyAnchor::Index(index)) => {
                let message = format!("no element {index} in {} to delete", self.shown());
                let problem =
                    self.problem("KX030", self.pos, message).hint(format!("it has {} elements", items.len()));
                return self.absent(problem);
            }
            ReadyOp::Before(ReadyAnchor::Match(terms)) => match self.find(items, terms, self.pos)? {
                Some(index) => index,
                None => return Ok(()),
            },
            ReadyOp::After(ReadyAnchor::Match(terms)) => match self.find(items, terms, self.pos)? {
                Some(index) => index + 1,
                None => return Ok(()),
            },
            ReadyOp::DeleteAnchor(ReadyAnchor::Match(terms)) => {
                match items.iter().position(|item| holds(item, terms)) {
                    Some(index) => index,
                    None => {
                        let message =
                            format!("no element matching {} in {} to delete", show(terms), self.shown());
                        let problem = self.problem("KX030", self.pos, message).hint(present(items, terms));
                        return self.absent(problem);
                    }
                }
            }
            ReadyOp::DeleteNamed(name) => {
                match items.iter().position(|item| scalar_text(item).as_deref() == Some(name)) {
                    Some(index) => index,
                    None => {
                        let message = format!("no element `{name}` in {} to delete", self.shown());
                        let problem = self.problem("KX030", self.pos, message).hint(present(items, &[]));
                        return self.absent(problem);
                    }
                }
            }
            ReadyOp::Set | ReadyOp::Replace | ReadyOp::Delete => return Ok(()),
        };
        if matches!(ready.op, ReadyOp::DeleteAnchor(_) | ReadyOp::DeleteNamed(_)) {
            let old = items.remove(index);
            self.path.push(item_seg(index, &old));
            self.record(Did::Delete, Some(old), None);
            self.path.pop();
            return Ok(());
        }
        let value = self.value(ty.item())?;
        items.insert(index, value.clone());
        self.path.push(item_seg(index, &value));
        self.record(Did::Insert, None, Some(value));
        self.path.pop();
        Ok(())
    }

    /// The one element all terms hold for. `None`: absent, and that is no mistake here.
    pub(super) fn find(
        &mut self,
        items: &[Json],
        terms: &[ReadyTerm],
        pos: Pos,
    ) -> Result<Option<usize>, Fault> {
        let mut matches =
            items.iter().enumerate().filter(|(_, item)| holds(item, terms)).map(|(index, _)| index);
        match (matches.next(), matches.next()) {
            (Some(index), None) => Ok(Some(index)),
            (Some(_), Some(_)) => {
                let message = format!("several elements match {} in {}", show(terms), self.shown());
                Err(self.problem("KX021", pos, message).hint("add a term: [name=a,port=80]").into())
            }
            (None, _) => {
                let message = format!("no element matching {} in {}", show(terms), self.shown());
                let hint =
                    format!("{}; end the header or key with ? to skip when absent", present(items, terms));
                let problem = self.problem("KX020", pos, message).hint(hint);
                self.absent(problem).map(|()| None)
            }
        }
    }
}

fn show(terms: &[ReadyTerm]) -> String {
    let shown: Vec<String> =
        terms.iter().map(|(field, value)| format!("{}={value}", field.join("."))).collect();
    shown.join(",")
}

fn scalar_text(value: &Json) -> Option<String> {
    match value {
        Json::String(text) => Some(text.clone()),
        Json::Number(number) => Some(number.to_string()),
        Json::Bool(value) => Some(value.to_string()),
        _ => None,
    }
}

/// Terms compare by text; a missing field never matches.
fn holds(item: &Json, terms: &[ReadyTerm]) -> bool {
    terms.iter().all(|(field, value)| {
        let found = field.iter().try_fold(item, |at, key| at.get(key));
        match found {
            Some(Json::String(text)) => text == value,
            Some(other) => scalar_text(other).as_deref() == Some(value),
            None => false,
        }
    })
}

/// The elements a list has instead of the one looked for.
fn present(items: &[Json], terms: &[ReadyTerm]) -> String {
    let field: Vec<String> =
        terms.first().map_or_else(|| vec!["name".to_owned()], |(field, _)| field.clone());
    let names: Vec<String> = items
        .iter()
        .filter_map(|item| {
            scalar_text(item).or_else(|| scalar_text(field.iter().try_fold(item, |at, key| at.get(key))?))
        })
        .collect();
    if names.is_empty() {
        format!("it has {} elements", items.len())
    } else {
        format!("elements present: {}", listed(&names, 8))
    }
}
