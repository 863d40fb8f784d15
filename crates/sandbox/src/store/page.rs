//! Paged lists, at the present or an earlier revision.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use super::{Key, Object, Store};

/// Why a read at some revision cannot be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unavailable {
    /// History before `oldest` is gone.
    Compacted {
        oldest: u64,
    },
    Future {
        current: u64,
    },
}

/// A page of a table.
#[derive(Debug, Default)]
pub struct Page {
    pub rev: u64,
    pub objects: Vec<Arc<Object>>,
    /// The last key of this page when there may be more after it.
    pub last: Option<Key>,
    /// How many keys follow in the range; counted only when asked for.
    pub remaining: Option<usize>,
}

/// What part of a table to read.
pub struct Range<'a> {
    pub namespace: Option<&'a str>,
    /// Start after this key.
    pub after: Option<&'a Key>,
    pub limit: Option<usize>,
    /// Read as of this revision instead of the present.
    pub at: Option<u64>,
    pub count_rest: bool,
}

impl Range<'_> {
    pub fn all() -> Range<'static> {
        Range { namespace: None, after: None, limit: None, at: None, count_rest: false }
    }
}

impl Store {
    /// Every object of a table, or of one namespace of it, in key order.
    pub fn list(&self, table: &str, namespace: Option<&str>) -> Vec<Arc<Object>> {
        let range = Range { namespace, ..Range::all() };
        self.page(table, &range, &mut |_| true).map(|p| p.objects).unwrap_or_default()
    }

    /// The objects of a range that `keep` accepts, in key order.
    pub fn page(
        &self,
        table: &str,
        range: &Range<'_>,
        keep: &mut dyn FnMut(&Arc<Object>) -> bool,
    ) -> Result<Page, Unavailable> {
        let inner = self.read();
        let mut page = Page { rev: range.at.unwrap_or(inner.rev), ..Page::default() };
        if page.rev > inner.rev {
            return Err(Unavailable::Future { current: inner.rev });
        }
        let Some(table) = inner.tables.get(table) else {
            if page.rev < inner.floor {
                return Err(Unavailable::Compacted { oldest: inner.floor });
            }
            return Ok(page);
        };
        if page.rev < table.compacted {
            return Err(Unavailable::Compacted { oldest: table.compacted });
        }
        // What the keys touched since held at that revision.
        let mut past: BTreeMap<&Key, Option<&Arc<Object>>> = BTreeMap::new();
        for event in table.events_after(page.rev) {
            past.entry(&event.object.key).or_insert(event.prev.as_ref());
        }
        let within = |key: &Key| range.namespace.is_none_or(|ns| *key.namespace == *ns);
        let start = match (range.after, range.namespace) {
            (Some(key), _) => Bound::Excluded(key.clone()),
            (None, Some(ns)) => Bound::Included(Key::new(ns, "")),
            (None, None) => Bound::Unbounded,
        };
        let mut visit = |key: &Key, object: &Arc<Object>, page: &mut Page| {
            if range.limit.is_some_and(|limit| page.objects.len() >= limit) {
                if !range.count_rest {
                    // Any key more means that there is a next page, even if nothing on it matches.
                    page.last = page.objects.last().map(|o| o.key.clone());
                    return ControlFlow::Break(());
                }
                page.last = page.objects.last().map(|o| o.key.clone());
                *page.remaining.get_or_insert(0) += 1;
            } else if keep(object) {
                page.objects.push(object.clone());
            }
            let _ = key;
            ControlFlow::Continue(())
        };
        let mut old = past.range::<&Key, _>((start.as_ref(), Bound::Unbounded)).peekable();
        'all: for (key, object) in table.objects.range((start.clone(), Bound::Unbounded)) {
            while let Some((gone, before)) = old.next_if(|(k, _)| **k < key) {
                if let (true, Some(before)) = (within(gone), before)
                    && visit(gone, before, &mut page).is_break()
                {
                    break 'all;
                }
            }
            if !within(key) {
                if range.namespace.is_some_and(|ns| *key.namespace > *ns) {
                    break;
                }
                continue;
            }
            let object = match old.next_if(|(k, _)| **k == key) {
                Some((_, Some(before))) => *before,
                Some((_, None)) => continue,
                None => object,
            };
            if visit(key, object, &mut page).is_break() {
                break;
            }
        }
        if page.last.is_none() || page.remaining.is_some() {
            for (key, before) in old {
                if let (true, Some(before)) = (within(key), before)
                    && visit(key, before, &mut page).is_break()
                {
                    break;
                }
            }
        }
        Ok(page)
    }
}
