//! A package, a kustomization, a chart and plain manifests: installed, upgraded, compared, rolled back.

use slipway_manifest::ObjectRef;
use std::fs;
use std::path::Path;

use serde_json::Value;
use slipway_chart::UserValues;
use slipway_cluster::{Patch, WriteOptions};
use slipway_release::ReleaseStatus;
use slipway_release::inspect;
use slipway_release::plan::{Content, ReleaseRequest};

use crate::world::World;

fn write(folder: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("has a parent")).expect("a folder");
        fs::write(path, text).expect("writes");
    }
}

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\ndata:\n  level: low\n";
const EXTRA: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: extra\n";

/// A source in two versions: what of its files the second changes, and what it is called.
struct Case {
    name: &'static str,
    path: &'static str,
    first: Vec<(&'static str, &'static str)>,
    second: Vec<(&'static str, &'static str)>,
    set: Option<&'static str>,
    map: &'static str,
}

fn cases() -> Vec<Case> {
    vec![
        Case {
            name: "chart",
            path: "demo",
            first: vec![
                ("demo/Chart.yaml", "apiVersion: v2\nname: demo\nversion: 1.0.0\n"),
                ("demo/values.yaml", "level: low\n"),
                (
                    "demo/templates/a.yaml",
                    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\ndata:\n  level: {{ .Values.level }}\n",
                ),
            ],
            second: vec![("demo/templates/b.yaml", EXTRA)],
            set: Some("level=high"),
            map: "settings",
        },
        Case {
            name: "package",
            path: "demo.kurel",
            first: vec![
                (
                    "demo.kurel/parameters.yaml",
                    "kurel:\n  name: demo\n  version: 1.0.0\n  appVersion: \"1\"\nlevel: low\n",
                ),
                ("demo.kurel/resources/a.yaml", MAP),
                ("demo.kurel/patches/00-base.kpatch", "[configmap.settings]\ndata.level: \"${level}\"\n"),
            ],
            second: vec![("demo.kurel/resources/b.yaml", EXTRA)],
            set: Some("level=high"),
            map: "settings",
        },
        Case {
            name: "kustomization",
            path: "over",
            first: vec![
                ("base/kustomization.yaml", "resources:\n- a.yaml\n"),
                ("base/a.yaml", MAP),
                ("over/kustomization.yaml", "namePrefix: my-\nresources:\n- ../base\n"),
            ],
            second: vec![
                ("base/kustomization.yaml", "resources:\n- a.yaml\n- b.yaml\n"),
                ("base/b.yaml", EXTRA),
                (
                    "over/kustomization.yaml",
                    "namePrefix: my-\nresources:\n- ../base\npatches:\n- target: {kind: ConfigMap, name: settings}\n  patch: |-\n    - {op: replace, path: /data/level, value: high}\n",
                ),
            ],
            set: None,
            map: "my-settings",
        },
        Case {
            name: "manifests",
            path: "plain",
            first: vec![("plain/a.yaml", MAP)],
            second: vec![
                (
                    "plain/a.yaml",
                    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\ndata:\n  level: high\n",
                ),
                ("plain/b.yaml", EXTRA),
            ],
            set: None,
            map: "settings",
        },
    ]
}

fn request(world: &World, folder: &Path, case: &Case, set: Option<&str>) -> ReleaseRequest {
    let values = UserValues { set: set.map(str::to_owned).into_iter().collect(), ..UserValues::default() };
    world.source(&folder.join(case.path), values)
}

#[tokio::test]
async fn every_source_is_installed_upgraded_compared_and_rolled_back() {
    for case in cases() {
        let name = case.name;
        let world = World::bare();
        let folder = tempfile::tempdir().expect("a folder");
        write(folder.path(), &case.first);
        let run = async |request: &ReleaseRequest| {
            world.run(request).await.unwrap_or_else(|failure| panic!("{name}: {failure}"))
        };
        let at =
            |map: &str| ObjectRef::new(slipway_manifest::Gvk::new("", "v1", "ConfigMap"), Some("t1"), map);
        let level = async || {
            let live = world.cluster.get(&at(case.map)).await.expect("can be read").unwrap_or(Value::Null);
            live["data"]["level"].as_str().unwrap_or_default().to_owned()
        };
        let first = request(&world, folder.path(), &case, None);
        assert_eq!(run(&first).await.revision, 1, "{name}");
        assert_eq!(level().await, "low", "{name}");
        assert_eq!(run(&first).await.status, ReleaseStatus::Skipped, "{name}");

        write(folder.path(), &case.second);
        let second = request(&world, folder.path(), &case, case.set);
        assert_eq!(run(&second).await.revision, 2, "{name}");
        assert_eq!(level().await, "high", "{name}");
        let read =
            |revision| inspect::revision(&world.cluster, world.options.driver, "t1", "demo", Some(revision));
        let (old, new) = (read(1).await.expect("reads"), read(2).await.expect("reads"));
        let mut actions: Vec<String> =
            inspect::diff(&old, &new, &Default::default()).into_iter().map(|found| found.action).collect();
        actions.sort();
        assert_eq!(actions, ["create", "update"], "{name}");

        let patch = Patch::Merge(serde_json::json!({"data": {"level": "edited"}}));
        let options = WriteOptions::manager("kubectl-edit");
        world.cluster.patch(&at(case.map), &patch, &options, None).await.expect("writes");
        let back = world.with(Content::Revision(None));
        let drift = inspect::drift(&world.cluster, &back, None, &Default::default()).await.expect("compares");
        assert_eq!(drift.len(), 1, "{name}: {drift:?}");
        assert_eq!(run(&back).await.revision, 3, "{name}");
        assert_eq!(level().await, "low", "{name}");
        world.delete().await;
        assert!(world.cluster.get(&at(case.map)).await.expect("can be read").is_none(), "{name}");
    }
}
