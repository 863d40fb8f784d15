//! Finding, inserting and deleting the elements of a list.

use serde_json::Value as Json;

use super::eval::{ChangeKind, StatementWalk, ValueSlot, WalkError};
use super::ready::{ReadyAnchor, ReadyOp, ReadyTerm};
use super::seg::{PathSegment, item_seg};
use crate::report::join_words;
use crate::schema::FieldType;
use crate::val::ValuePos;

impl StatementWalk<'_, '_> {
    pub(super) fn apply_list_op(
        &mut self,
        mut slot: ValueSlot<'_>,
        ty: FieldType<'_>,
    ) -> Result<(), WalkError> {
        let ready = self.ready;
        let Some(node) = slot.get_mut() else {
            if matches!(ready.op, ReadyOp::DeleteAnchor(_) | ReadyOp::DeleteNamed(_)) {
                let problem =
                    self.problem("KX030", self.pos, format!("{} is not there to delete from", self.shown()));
                return self.report_absent(problem);
            }
            if let Some(list) = self.fresh_value(ty)? {
                slot.put_value(list.clone());
                self.record(ChangeKind::Set, None, Some(list));
            }
            return Ok(());
        };
        if let (Json::Object(map), ReadyOp::DeleteNamed(name)) = (&mut *node, &ready.op) {
            return match map.shift_remove(name) {
                Some(old) => {
                    self.path.push(PathSegment::Key(name.clone()));
                    self.record(ChangeKind::Delete, Some(old), None);
                    self.path.pop();
                    Ok(())
                }
                None => {
                    let keys: Vec<&str> = map.keys().map(String::as_str).collect();
                    let hint = format!("keys present: {}", join_words(&keys, 8));
                    let problem = self.problem(
                        "KX030",
                        self.pos,
                        format!("{} has no key `{name}` to delete", self.shown()),
                    );
                    self.report_absent(problem.hint(hint))
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
                return self.report_absent(problem);
            }
            ReadyOp::DeleteAnchor(ReadyAnchor::Index(index)) => {
                let message = format!("no element {index} in {} to delete", self.shown());
                let problem =
                    self.problem("KX030", self.pos, message).hint(format!("it has {} elements", items.len()));
                return self.report_absent(problem);
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
                match items.iter().position(|item| terms_hold(item, terms)) {
                    Some(index) => index,
                    None => {
                        let message = format!(
                            "no element matching {} in {} to delete",
                            show_terms(terms),
                            self.shown()
                        );
                        let problem =
                            self.problem("KX030", self.pos, message).hint(present_elements(items, terms));
                        return self.report_absent(problem);
                    }
                }
            }
            ReadyOp::DeleteNamed(name) => {
                match items.iter().position(|item| scalar_text(item).as_deref() == Some(name)) {
                    Some(index) => index,
                    None => {
                        let message = format!("no element `{name}` in {} to delete", self.shown());
                        let problem =
                            self.problem("KX030", self.pos, message).hint(present_elements(items, &[]));
                        return self.report_absent(problem);
                    }
                }
            }
            ReadyOp::Set | ReadyOp::Replace | ReadyOp::Delete => return Ok(()),
        };
        if matches!(ready.op, ReadyOp::DeleteAnchor(_) | ReadyOp::DeleteNamed(_)) {
            let old = items.remove(index);
            self.path.push(item_seg(index, &old));
            self.record(ChangeKind::Delete, Some(old), None);
            self.path.pop();
            return Ok(());
        }
        let value = self.value(ty.item())?;
        items.insert(index, value.clone());
        self.path.push(item_seg(index, &value));
        self.record(ChangeKind::Insert, None, Some(value));
        self.path.pop();
        Ok(())
    }

    /// The one element all terms hold for. `None`: absent, and that is no mistake here.
    pub(super) fn find(
        &mut self,
        items: &[Json],
        terms: &[ReadyTerm],
        pos: ValuePos,
    ) -> Result<Option<usize>, WalkError> {
        let mut matches =
            items.iter().enumerate().filter(|(_, item)| terms_hold(item, terms)).map(|(index, _)| index);
        match (matches.next(), matches.next()) {
            (Some(index), None) => Ok(Some(index)),
            (Some(_), Some(_)) => {
                let message = format!("several elements match {} in {}", show_terms(terms), self.shown());
                Err(self.problem("KX021", pos, message).hint("add a term: [name=a,port=80]").into())
            }
            (None, _) => {
                let message = format!("no element matching {} in {}", show_terms(terms), self.shown());
                let hint = format!(
                    "{}; end the header or key with ? to skip when absent",
                    present_elements(items, terms)
                );
                let problem = self.problem("KX020", pos, message).hint(hint);
                self.report_absent(problem).map(|()| None)
            }
        }
    }
}

fn show_terms(terms: &[ReadyTerm]) -> String {
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
fn terms_hold(item: &Json, terms: &[ReadyTerm]) -> bool {
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
fn present_elements(items: &[Json], terms: &[ReadyTerm]) -> String {
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
        format!("elements present: {}", join_words(&names, 8))
    }
}
