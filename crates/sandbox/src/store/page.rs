//! Paged lists, at the present or an earlier revision.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use super::{ObjectKey, Store, StoredObject};

/// The reason a read at some revision cannot be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RevisionUnavailable {
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
pub struct ObjectPage {
    pub rev: u64,
    pub objects: Vec<Arc<StoredObject>>,
    /// The last key of this page when there may be more after it.
    pub last: Option<ObjectKey>,
    /// Number of keys that follow in the range; counted only when asked for.
    pub remaining: Option<usize>,
}

/// The part of a table to read.
pub struct PageRange<'a> {
    pub namespace: Option<&'a str>,
    /// Start after this key.
    pub after: Option<&'a ObjectKey>,
    pub limit: Option<usize>,
    /// Read as of this revision instead of the present.
    pub at: Option<u64>,
    pub count_rest: bool,
}

impl PageRange<'_> {
    pub fn all() -> PageRange<'static> {
        PageRange { namespace: None, after: None, limit: None, at: None, count_rest: false }
    }
}

impl Store {
    /// Every object of a table, or of one namespace of it, in key order.
    pub fn list(&self, table: &str, namespace: Option<&str>) -> Vec<Arc<StoredObject>> {
        let range = PageRange { namespace, ..PageRange::all() };
        self.page(table, &range, &mut |_| true).map(|p| p.objects).unwrap_or_default()
    }

    /// The objects of a range that `keep` accepts, in key order.
    pub fn page(
        &self,
        table: &str,
        range: &PageRange<'_>,
        keep: &mut dyn FnMut(&Arc<StoredObject>) -> bool,
    ) -> Result<ObjectPage, RevisionUnavailable> {
        let inner = self.read_content();
        let mut page = ObjectPage { rev: range.at.unwrap_or(inner.rev), ..ObjectPage::default() };
        if page.rev > inner.rev {
            return Err(RevisionUnavailable::Future { current: inner.rev });
        }
        let Some(table) = inner.tables.get(table) else {
            if page.rev < inner.floor {
                return Err(RevisionUnavailable::Compacted { oldest: inner.floor });
            }
            return Ok(page);
        };
        if page.rev < table.compacted {
            return Err(RevisionUnavailable::Compacted { oldest: table.compacted });
        }
        // The objects at that revision under the keys changed since.
        let mut past: BTreeMap<&ObjectKey, Option<&Arc<StoredObject>>> = BTreeMap::new();
        for event in table.events_after(page.rev) {
            past.entry(&event.object.key).or_insert(event.prev.as_ref());
        }
        let within = |key: &ObjectKey| range.namespace.is_none_or(|ns| *key.namespace == *ns);
        let start = match (range.after, range.namespace) {
            (Some(key), _) => Bound::Excluded(key.clone()),
            (None, Some(ns)) => Bound::Included(ObjectKey::new(ns, "")),
            (None, None) => Bound::Unbounded,
        };
        let mut visit = |key: &ObjectKey, object: &Arc<StoredObject>, page: &mut ObjectPage| {
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
        let mut old = past.range::<&ObjectKey, _>((start.as_ref(), Bound::Unbounded)).peekable();
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
