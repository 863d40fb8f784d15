//! Macros that go through lists and maps.

use super::{Run, coerce};
use crate::check::{Coerce, Loop, LoopKind, Node};
use crate::error::EvalError;
use crate::library::Answer;
use crate::value::{Entries, Key, Map, Value, compare};

/// The state of a loop.
struct Progress<'a> {
    values: Vec<Value<'a>>,
    entries: Entries<'a>,
    /// The keys elements are sorted by.
    keys: Vec<Value<'a>>,
    count: usize,
    failed: Option<EvalError>,
}

impl<'a> Run<'_, 'a> {
    pub(super) fn eval_loop(&mut self, inner: &Loop) -> Answer<'a> {
        let range = self.eval(&inner.range)?;
        let mut progress = Progress {
            values: Vec::new(),
            entries: Entries::default(),
            keys: Vec::new(),
            count: 0,
            failed: None,
        };
        match &range {
            Value::List(list) => {
                for (at, element) in list.iter().enumerate() {
                    let key = inner.second.map(|_| Value::Int(at as i64));
                    if let Some(done) = self.run_iteration(inner, key, element, &mut progress)? {
                        return Ok(done);
                    }
                }
            }
            Value::Map(map) => {
                self.meter.charge(map.len() as u64)?;
                for (key, value) in map.entries() {
                    let (key, element) = match inner.second {
                        Some(_) => (Some(key.value()), value),
                        None => (None, key.value()),
                    };
                    if let Some(done) = self.run_iteration(inner, key, element, &mut progress)? {
                        return Ok(done);
                    }
                }
            }
            _ => return Err(EvalError::no_overload()),
        }
        self.finish_loop(inner, progress)
    }

    /// One element; gives the result when it decides.
    fn run_iteration(
        &mut self,
        inner: &Loop,
        key: Option<Value<'a>>,
        element: Value<'a>,
        progress: &mut Progress<'a>,
    ) -> Result<Option<Value<'a>>, EvalError> {
        self.meter.charge(1)?;
        let element =
            if inner.element == Coerce::No { element } else { coerce::coerce(element, inner.element) };
        match (inner.second, key) {
            (Some(second), Some(key)) => {
                self.set_local(inner.slot, key);
                self.set_local(second, element);
            }
            (_, _) => self.set_local(inner.slot, element),
        }
        let holds = match &inner.condition {
            None => true,
            Some(condition) => match self.eval(condition) {
                Ok(Value::Bool(truth)) => truth,
                Ok(_) => return self.absorb_result(inner, EvalError::no_overload(), progress),
                Err(error) => return self.absorb_result(inner, error, progress),
            },
        };
        match inner.kind {
            LoopKind::All if !holds => return Ok(Some(Value::Bool(false))),
            LoopKind::Exists if holds => return Ok(Some(Value::Bool(true))),
            LoopKind::ExistsOne => progress.count += usize::from(holds),
            LoopKind::Filter if holds => progress.values.push(self.local_value(inner.slot)),
            LoopKind::Map if holds => {
                let value = self.eval_result(inner.result.as_ref())?;
                progress.values.push(value);
            }
            LoopKind::TransformMap if holds => {
                let value = self.eval_result(inner.result.as_ref())?;
                let key = Key::of(&self.local_value(inner.slot)).ok_or_else(EvalError::no_overload)?;
                progress.entries.insert(key, value);
            }
            LoopKind::SortBy => {
                let element = self.local_value(inner.slot);
                let key = self.eval_result(inner.result.as_ref())?;
                progress.values.push(element);
                progress.keys.push(key);
            }
            _ => {}
        }
        Ok(None)
    }

    fn local_value(&self, slot: u32) -> Value<'a> {
        self.locals.get(slot as usize).cloned().unwrap_or(Value::Null)
    }

    fn eval_result(&mut self, node: Option<&Node>) -> Answer<'a> {
        match node {
            Some(node) => self.eval(node),
            None => Ok(Value::Null),
        }
    }

    /// `all` and `exists` go on after an error: another element may decide.
    fn absorb_result(
        &mut self,
        inner: &Loop,
        error: EvalError,
        progress: &mut Progress<'a>,
    ) -> Result<Option<Value<'a>>, EvalError> {
        if error.is_final() || !matches!(inner.kind, LoopKind::All | LoopKind::Exists) {
            return Err(error);
        }
        if progress.failed.is_none() {
            progress.failed = Some(error);
        }
        Ok(None)
    }

    fn finish_loop(&mut self, inner: &Loop, progress: Progress<'a>) -> Answer<'a> {
        if let Some(error) = progress.failed {
            return Err(error);
        }
        Ok(match inner.kind {
            LoopKind::All => Value::Bool(true),
            LoopKind::Exists => Value::Bool(false),
            LoopKind::ExistsOne => Value::Bool(progress.count == 1),
            LoopKind::Filter | LoopKind::Map => Value::list(progress.values),
            LoopKind::TransformMap => Value::Map(Map::from(progress.entries)),
            LoopKind::SortBy => {
                let length = progress.values.len() as u64;
                self.meter.charge(length.saturating_mul(length.max(2).ilog2().into()))?;
                if let Some(first) = progress.keys.first()
                    && progress
                        .keys
                        .iter()
                        .any(|key| key.type_name() != first.type_name() || compare(key, key).is_none())
                {
                    return Err(EvalError::invalid("list elements must have the same type"));
                }
                let mut pairs: Vec<_> = progress.keys.into_iter().zip(progress.values).collect();
                pairs.sort_by(|(a, _), (b, _)| compare(a, b).unwrap_or(std::cmp::Ordering::Equal));
                Value::list(pairs.into_iter().map(|(_, value)| value).collect::<Vec<_>>())
            }
        })
    }
}
