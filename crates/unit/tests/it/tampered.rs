//! A thousand random changes of a unit: each is found, or changes nothing anybody could read.

use rand::{RngExt as _, SeedableRng as _};
use rusqlite::Connection;
use slipway_source::LoadContext;
use slipway_unit::*;

use crate::support::*;

/// Everything a unit says, row by row.
fn dump(connection: &Connection) -> Option<Vec<String>> {
    let mut all = Vec::new();
    let mut statement =
        connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").ok()?;
    let names: Vec<String> =
        statement.query_map([], |row| row.get(0)).ok()?.collect::<Result<_, _>>().ok()?;
    for name in names {
        let mut statement = connection.prepare(&format!("SELECT * FROM {name}")).ok()?;
        let columns = statement.column_count();
        let mut rows = statement.query([]).ok()?;
        while let Some(row) = rows.next().ok()? {
            let cells: Vec<String> =
                (0..columns).map(|index| format!("{:?}", row.get_ref(index).ok())).collect();
            all.push(format!("{name} {}", cells.join("|")));
        }
    }
    Some(all)
}

#[tokio::test]
async fn a_thousand_random_changes_are_found() {
    let source = shop();
    let path = source.path().join("u");
    let request = BundleRequest {
        values: set(&["greeting=hi", "password=secret://vault/a#b"]),
        images: vec![ImageInput::parse(&format!("shop=acme/shop:1.1@{DIGEST}")).expect("is an image")],
        ..request_for(&source.path().join("shop"))
    };
    make(request, &LoadContext::default(), &path).await.unwrap_or_else(|error| panic!("{error}"));
    let unit = open(&path);
    let target = UnitTarget {
        cluster: "c".into(),
        namespace: "n".into(),
        release: "r".into(),
        ..UnitTarget::default()
    };
    ledger(&unit)
        .append_content(EntryKind::Diagnostics, &target, serde_json::json!({}), b"some content")
        .expect("is written");
    let sound = std::fs::read(&path).expect("is there");
    let said = dump(&Connection::open(&path).expect("opens")).expect("reads");
    // Pages are filled up with zeros, which belong to nobody.
    let written: Vec<usize> = (0..sound.len()).filter(|at| sound[*at] != 0).collect();
    let changed = source.path().join("changed");
    let mut random = rand::rngs::SmallRng::seed_from_u64(7);
    let (mut found, mut without_effect) = (0, 0);
    for _ in 0..700 {
        let mut bytes = sound.clone();
        let at = written[random.random_range(0..written.len())];
        bytes[at] ^= 1 << random.random_range(0..8);
        std::fs::write(&changed, &bytes).expect("is written");
        match UnitFile::open(&changed, &OpenOptions::default()) {
            Err(_) => found += 1,
            Ok(opened) => {
                // Bytes between rows belong to nobody: then every row is what it was.
                assert_eq!(opened.digest(), unit.digest());
                let now = dump(&Connection::open(&changed).expect("opens"));
                let other = said
                    .iter()
                    .zip(now.as_deref().unwrap_or_default())
                    .find(|(before, after)| before != after);
                assert!(now.as_ref() == Some(&said), "byte {at} changed a row and was not found: {other:?}");
                without_effect += 1;
            }
        }
    }
    let tables: Vec<String> =
        said.iter().map(|row| row.split(' ').next().unwrap_or_default().to_owned()).collect();
    let mut rows_changed = 0;
    while rows_changed < 300 {
        let table = &tables[random.random_range(0..tables.len())];
        std::fs::write(&changed, &sound).expect("is written");
        let connection = Connection::open(&changed).expect("opens");
        connection.pragma_update(None, "foreign_keys", false).expect("is set");
        let columns: Vec<String> = connection
            .prepare(&format!("SELECT name FROM pragma_table_info('{table}')"))
            .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
            .expect("has columns");
        let column = &columns[random.random_range(0..columns.len())];
        let key = &columns[0];
        let pick = random.random_range(0..20);
        let row = format!(
            "{key} IN (SELECT {key} FROM {table} LIMIT 1 OFFSET {pick} % (SELECT count(*) FROM {table}))"
        );
        let sql = match random.random_range(0..3) {
            0 => format!("DELETE FROM {table} WHERE {row}"),
            1 => format!(
                "UPDATE {table} SET {column} = CASE typeof({column}) WHEN 'integer' THEN {column} + 1 WHEN 'blob' THEN zeroblob(32) ELSE coalesce({column}, '') || 'x' END WHERE {row}"
            ),
            _ => format!("UPDATE {table} SET {column} = NULL WHERE {row}"),
        };
        if !matches!(connection.execute(&sql, []), Ok(1..)) {
            continue;
        }
        let now = dump(&connection).expect("reads");
        connection.close().expect("closes");
        if now == said {
            continue;
        }
        rows_changed += 1;
        let opened = UnitFile::open(&changed, &OpenOptions::default());
        assert!(opened.is_err(), "{sql} was not found");
    }
    assert_eq!(found + without_effect + rows_changed, 1000);
    assert!(found > 300, "{found} found, {without_effect} without effect");
}
