//! Packs what a real API server says about its types into `data/schema.bin`.
//!
//! ```text
//! cargo run -p slipway-manifest --example build_schema -- DIR data/schema.bin
//! ```
//!
//! `DIR` holds `schema-table.json`, `tables.json` and `discovery/` with the aggregated documents
//! `api-agg.json` and `apis-agg.json` and the resource lists `api_v1.json`, `apis_<group>_<version>.json`.

use std::path::Path;

use serde_json::Value;
use slipway_manifest::schema::data::{SchemaSources, pack_schema};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(from), Some(to)) = (arguments.next(), arguments.next()) else {
        return Err("usage: build_schema DIR OUTPUT".into());
    };
    let from = Path::new(&from);
    let json = |path: &Path| -> Result<Value, Box<dyn std::error::Error>> {
        Ok(serde_json::from_slice(&std::fs::read(path)?)?)
    };
    let discovery = from.join("discovery");
    let mut resource_lists = Vec::new();
    let mut files: Vec<_> = std::fs::read_dir(&discovery)?.collect::<Result<_, _>>()?;
    files.sort_by_key(std::fs::DirEntry::path);
    for file in files {
        let list = json(&file.path())?;
        if list["kind"] == "APIResourceList" {
            resource_lists.push(list);
        }
    }
    let packed = pack_schema(&SchemaSources {
        table: &std::fs::read_to_string(from.join("schema-table.json"))?,
        columns: &json(&from.join("tables.json"))?,
        discovery: &[json(&discovery.join("api-agg.json"))?, json(&discovery.join("apis-agg.json"))?],
        resource_lists: &resource_lists,
    })?;
    std::fs::write(to, packed)?;
    Ok(())
}
