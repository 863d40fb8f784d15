mod full;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;

use super::{LogOptions, RecoveryMode};
use crate::store::{DataNotice, ExpectedState, ObjectDraft, ObjectKey, Store, WriteRaced};

/// Everything a store holds: where, at which revision, with which content.
type Content = BTreeMap<(String, ObjectKey), (u64, Vec<u8>)>;

fn content(store: &Store) -> Content {
    let (_, objects) = store.all_objects();
    let entry = |o: &crate::store::StoredObject| (o.rev, o.tail.to_vec());
    objects.iter().map(|(table, o)| ((table.to_string(), o.key.clone()), entry(o))).collect()
}

fn open(dir: &Path) -> std::io::Result<Arc<Store>> {
    Store::open_with(dir, 100, LogOptions { fold_at: 24 << 10, ..LogOptions::default() })
}

fn put(store: &Store, name: &str, size: usize) -> u64 {
    let key = ObjectKey::new("default", name);
    let draft = ObjectDraft::new(&json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "labels": {"size": size.to_string()}},
        "data": {"text": "ä-".repeat(size)},
    }));
    let expect = store.get("configmaps", &key).map_or(ExpectedState::Absent, |o| ExpectedState::Rev(o.rev));
    store.put("configmaps", &key, expect, &draft, |_| Ok::<(), WriteRaced>(())).unwrap().rev
}

fn durable(store: &Store, rev: u64) {
    futures::executor::block_on(store.wait_durable(rev)).unwrap();
}

/// A directory with a snapshot and a log after it, every write of which was acknowledged.
fn written(dir: &Path) -> Content {
    let store = open(dir).unwrap();
    let mut number = 0;
    while !dir.join("snapshot").exists() || fs::metadata(dir.join("log")).unwrap().len() < 12 << 10 {
        number += 1;
        let rev = put(&store, &format!("object-{}", number % 17), 1 + number * 37 % 400);
        durable(&store, rev);
    }
    content(&store)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// A small generator of numbers: the same damages every time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound.max(1) as u64) as usize
    }
}

/// One damage of at most 4 KiB, somewhere in a file.
fn damage(numbers: &mut Numbers, text: &[u8]) -> (Vec<u8>, String) {
    let mut out = text.to_vec();
    let length = 1 + match numbers.below(3) {
        0 => numbers.below(8),
        1 => numbers.below(256),
        _ => numbers.below(4096),
    };
    // Ends and beginnings are where formats are weak.
    let at = match numbers.below(4) {
        0 => out.len().saturating_sub(numbers.below(length + 1)),
        1 => numbers.below(64).min(out.len()),
        _ => numbers.below(out.len() + 1),
    };
    let end = (at + length).min(out.len());
    let kind = ["overwrite", "zero", "truncate", "insert", "delete", "flip", "repeat"][numbers.below(7)];
    match kind {
        "overwrite" => out[at..end].iter_mut().for_each(|b| *b = numbers.below(256) as u8),
        "zero" => out[at..end].fill(0),
        "truncate" => out.truncate(out.len().saturating_sub(length)),
        "insert" => drop(out.splice(at..at, (0..length).map(|_| numbers.below(256) as u8))),
        "delete" => drop(out.drain(at..end)),
        "flip" => out[at..end].iter_mut().take(1).for_each(|b| *b ^= 1 << numbers.below(8)),
        _ => {
            let twice = out[at..end].to_vec();
            drop(out.splice(at..at, twice));
        }
    }
    (out, format!("{kind} of {length} bytes at {at}"))
}

/// `SLIPWAY_DAMAGES=10000` makes the long run of it.
#[test]
fn no_damage_loses_acknowledged_writes_silently() {
    let rounds = std::env::var("SLIPWAY_DAMAGES").ok().and_then(|n| n.parse().ok()).unwrap_or(150);
    let base = tempfile::tempdir().unwrap();
    let original = base.path().join("original");
    let expected = written(&original);
    let mut numbers = Numbers(7);
    let (mut recovered, mut refused) = (0, 0);
    for round in 0..rounds {
        let dir = base.path().join(format!("round-{round}"));
        copy(&original, &dir);
        let file = ["log", "log", "snapshot", "head"][numbers.below(4)];
        let text = fs::read(dir.join(file)).unwrap();
        let (damaged, what) = damage(&mut numbers, &text);
        let what = format!("round {round}: {file}: {what}");
        fs::write(dir.join(file), &damaged).unwrap();
        match open(&dir) {
            Err(e) => {
                refused += 1;
                assert!(e.to_string().contains("is damaged"), "{what}: {e}");
                // Nothing was touched: the evidence is there.
                assert_eq!(fs::read(dir.join(file)).unwrap(), damaged, "{what}");
            }
            Ok(store) => {
                recovered += 1;
                assert!(content(&store) == expected, "{what}");
                if damaged != text && file != "head" {
                    assert!(!store.notices().is_empty(), "{what}: nothing was said");
                }
                let rev = put(&store, "later", 10);
                durable(&store, rev);
                let later = content(&store);
                drop(store);
                let again = open(&dir).unwrap_or_else(|e| panic!("{what}: {e}"));
                assert!(content(&again) == later, "{what}: what was written later is gone");
                assert!(again.notices().is_empty(), "{what}: {:?}", again.notices());
            }
        }
        fs::remove_dir_all(&dir).unwrap();
    }
    assert!(recovered > 0 && refused > 0, "{recovered} recovered, {refused} refused");
}

#[test]
fn zeros_at_the_end_hide_no_later_writes() {
    let dir = tempfile::tempdir().unwrap();
    let expected = written(dir.path());
    let log = dir.path().join("log");
    let mut text = fs::read(&log).unwrap();
    text.extend([0; 4096]);
    fs::write(&log, &text).unwrap();
    let store = open(dir.path()).unwrap();
    assert!(content(&store) == expected);
    let kept = dir.path().join("log.damaged");
    assert_eq!(store.notices(), [DataNotice::TornTail { file: log, bytes: 4096, kept: kept.clone() }]);
    assert_eq!(fs::read(kept).unwrap(), [0; 4096]);
    let rev = put(&store, "later", 1);
    durable(&store, rev);
    drop(store);
    assert!(open(dir.path()).unwrap().get("configmaps", &ObjectKey::new("default", "later")).is_some());
}

#[test]
fn salvaging_keeps_what_is_left_and_the_evidence() {
    let dir = tempfile::tempdir().unwrap();
    let expected = written(dir.path());
    let log = dir.path().join("log");
    let mut text = fs::read(&log).unwrap();
    let middle = text.len() / 2;
    text[middle..middle + 64].fill(0);
    fs::write(&log, &text).unwrap();
    let error = open(dir.path()).err().unwrap().to_string();
    assert!(error.contains("missing"), "{error}");
    let options = LogOptions { recovery: RecoveryMode::Salvage, ..LogOptions::default() };
    let store = Store::open_with(dir.path(), 100, options).unwrap();
    assert!(matches!(store.notices(), [DataNotice::Salvaged { .. }]), "{:?}", store.notices());
    assert_eq!(content(&store).len(), expected.len());
    assert_eq!(fs::read(dir.path().join("log.damaged")).unwrap(), text);
    drop(store);
    assert!(open(dir.path()).unwrap().notices().is_empty());
}

/// A log as versions before the present format wrote it.
fn old_log(records: &[serde_json::Value]) -> Vec<u8> {
    let mut out = b"slipwal1".to_vec();
    for record in records {
        let text = record.to_string();
        out.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
        out.extend(super::frame::crc_checksum(text.as_bytes()).to_le_bytes());
        out.extend(text.as_bytes());
    }
    out
}

fn old_record(name: &str, rev: u64) -> serde_json::Value {
    // The members in the order the writer had them.
    let object = json!({"metadata": {"name": name, "uid": name}});
    let text = format!(r#"{{"t":"configmaps","n":"default","m":"{name}","r":{rev},"c":"a","o":{object}}}"#);
    serde_json::from_str(&text).unwrap()
}

#[test]
fn old_logs_are_read_and_written_anew() {
    let whole = old_log(&[old_record("a", 1), old_record("b", 2)]);
    let last = old_log(&[old_record("b", 2)]).len() - 8;
    let zeros = [&whole[..], &[0; 512]].concat();
    let torn = whole[..whole.len() - 3].to_vec();
    let mut broken = whole.clone();
    broken[40] ^= 1;
    let mut longer = whole.clone();
    longer[9] ^= 0x40;
    let mut end = whole.clone();
    let middle = end.len() - last / 2;
    end[middle] ^= 1;
    for (name, text, objects) in [
        ("whole", &whole, Ok(2)),
        ("zeros", &zeros, Ok(2)),
        ("torn", &torn, Ok(1)),
        ("broken", &broken, Err(())),
        ("length", &longer, Err(())),
        ("end", &end, Err(())),
    ] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("log"), text).unwrap();
        let opened = open(dir.path());
        assert_eq!(opened.as_ref().map(|s| content(s).len()).map_err(|_| ()), objects, "{name}");
        let Ok(store) = opened else { continue };
        assert_eq!(store.notices().len(), usize::from(name != "whole"), "{name}: {:?}", store.notices());
        assert!(fs::read(dir.path().join("log")).unwrap().starts_with(super::LOG_MAGIC), "{name}");
        let (before, rev) = (content(&store), put(&store, "c", 1));
        durable(&store, rev);
        drop(store);
        assert_eq!(content(&open(dir.path()).unwrap()).len(), before.len() + 1, "{name}");
    }
}

#[cfg(unix)]
#[test]
fn data_directories_are_closed_to_others() {
    use std::os::unix::fs::PermissionsExt;
    let base = tempfile::tempdir().unwrap();
    let dir = base.path().join("data");
    written(&dir);
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let modes = || -> Vec<u32> {
        let files = fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path());
        let all = std::iter::once(dir.clone()).chain(files);
        all.map(|path| fs::metadata(path).unwrap().permissions().mode() & 0o077).collect()
    };
    assert!(modes().iter().all(|mode| *mode == 0), "{:?}", modes());
    set(&dir, 0o755);
    for entry in fs::read_dir(&dir).unwrap() {
        set(&entry.unwrap().path(), 0o644);
    }
    let store = open(&dir).unwrap();
    assert!(modes().iter().all(|mode| *mode == 0), "{:?}", modes());
    drop(store);
}
