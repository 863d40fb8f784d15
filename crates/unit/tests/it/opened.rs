//! Files that are no units, and units somebody added something to.

use rusqlite::Connection;
use slipway_source::LoadContext;
use slipway_unit::*;

use crate::support::*;

fn refusal(path: &std::path::Path) -> String {
    UnitFile::open(path, &OpenOptions::default()).expect_err("is refused").to_string()
}

#[test]
fn other_files_are_refused_with_what_they_are() {
    let place = folder(&[
        ("empty", ""),
        ("text", "hello, this is a text and not a database at all, it just goes on and on for a while"),
    ]);
    for name in ["empty", "text"] {
        assert!(refusal(&place.path().join(name)).contains("is not a SQLite database"));
    }
    assert!(refusal(place.path()).contains("is not a file"));
    assert!(refusal(&place.path().join("none")).starts_with("cannot open"));
    let other = place.path().join("other.sqlite");
    let connection = Connection::open(&other).expect("is made");
    connection.execute_batch("CREATE TABLE t (a)").expect("is written");
    assert!(refusal(&other).contains("of another program"));
    connection.pragma_update(None, "application_id", 0x4B54_4C55).expect("is written");
    assert!(refusal(&other).contains("its format is version 0"));
    connection.pragma_update(None, "user_version", 1).expect("is written");
    assert!(refusal(&other).contains("are not those of a unit"));
}

#[tokio::test]
async fn changes_of_rows_schema_and_ledger_are_named() {
    let source = shop();
    let path = source.path().join("u");
    let request = BundleRequest { values: set(&["greeting=hi"]), ..request_for(&source.path().join("shop")) };
    make(request, &LoadContext::default(), &path).await.expect("is made");
    let unit = open(&path);
    let target = UnitTarget {
        cluster: "c".into(),
        namespace: "n".into(),
        release: "r".into(),
        ..UnitTarget::default()
    };
    for _ in 0..3 {
        ledger(&unit).append(EntryKind::Plan, &target, serde_json::json!({"a": 1})).expect("is written");
    }
    for (sql, message) in [
        ("UPDATE meta SET value = 'x' WHERE key = 'tool'", "table `meta`"),
        ("UPDATE meta SET value = 'x' WHERE key = 'createdAt'", "table `meta`"),
        ("UPDATE objects SET name = 'x' WHERE kind = 'Service'", "table `objects`"),
        ("DELETE FROM image_uses", "table `image_uses`"),
        ("UPDATE value_layers SET origin = 'x'", "table `value_layers`"),
        ("UPDATE packs SET data = zeroblob(10)", "table `packs`"),
        ("UPDATE packs SET sha256 = zeroblob(32)", "table `packs`"),
        (
            "INSERT INTO packs VALUES (9, 'raw', 1, x'2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881', x'78')",
            "table `packs`",
        ),
        ("UPDATE blobs SET start = start + 1", "table `blobs`"),
        ("UPDATE seal SET unitDigest = 'sha256:0'", "table `seal`"),
        ("UPDATE seal SET tables = ' ' || tables", "table `seal`"),
        ("UPDATE ledger_entries SET actor = 'mallory' WHERE seq = 2", "the ledger was changed: entry 2"),
        ("DELETE FROM ledger_entries WHERE seq = 3", "the ledger was changed: entry 2"),
        ("DELETE FROM ledger_entries WHERE seq = 1", "the ledger was changed: entry 2"),
        ("UPDATE ledger_head SET hash = 'x'", "the ledger was changed: entry 3"),
        ("INSERT INTO ledger_blobs VALUES (zeroblob(32), 1, x'00')", "table `ledger_blobs`"),
        (
            "CREATE TRIGGER t AFTER INSERT ON ledger_entries BEGIN DELETE FROM ledger_head; END",
            "are not those of a unit",
        ),
        ("CREATE VIEW v AS SELECT 1", "are not those of a unit"),
        ("INSERT INTO signatures VALUES ('ed25519:00', 'ed25519', x'00', x'00', 'now')", "is not valid"),
    ] {
        let changed = source.path().join("changed");
        std::fs::copy(&path, &changed).expect("is copied");
        let connection = Connection::open(&changed).expect("opens");
        connection.pragma_update(None, "foreign_keys", false).expect("is set");
        connection.execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        connection.close().expect("closes");
        let text = refusal(&changed);
        assert!(text.contains(message), "{sql}: {text}");
    }
}

#[tokio::test]
async fn a_unit_that_cannot_be_written_has_its_ledger_beside_it() {
    let source = shop();
    let path = source.path().join("u");
    make(request_for(&source.path().join("shop")), &LoadContext::default(), &path).await.expect("is made");
    let mut permissions = std::fs::metadata(&path).expect("is there").permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&path, permissions.clone()).expect("is set");
    let unit = open(&path);
    let beside = ledger(&unit);
    assert_eq!(beside.place(), &LedgerPlace::Sidecar(source.path().join("u.ledger.laptop.sqlite")));
    let target = UnitTarget {
        cluster: "c".into(),
        namespace: "n".into(),
        release: "r".into(),
        ..UnitTarget::default()
    };
    beside.append(EntryKind::Plan, &target, serde_json::json!({"n": 1})).expect("is written");
    beside
        .append_content(EntryKind::Diagnostics, &target, serde_json::json!({}), b"content")
        .expect("is written");
    assert_eq!(beside.entries().expect("is sound").len(), 2);
    assert!(unit.ledger().is_empty());

    #[expect(clippy::permissions_set_readonly_false, reason = "the test's own file")]
    permissions.set_readonly(false);
    std::fs::set_permissions(&path, permissions).expect("is set");
    let sidecar = source.path().join("u.ledger.laptop.sqlite");
    let merged = merge_ledger(&unit, &sidecar).expect("is merged");
    assert_eq!(merged, MergeOutcome { added: 2, already_known: 0 });
    let merged = merge_ledger(&unit, &sidecar).expect("is merged");
    assert_eq!(merged, MergeOutcome { added: 0, already_known: 2 });
    let all = ledger(&open(&path)).entries().expect("is sound");
    assert_eq!(all.len(), 2);
    assert_eq!(ledger(&unit).content(&all[1]).expect("is sound").as_deref(), Some(b"content".as_slice()));
}
