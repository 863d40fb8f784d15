//! Saved plans, Helm on either side, the history, rolling back, deleting.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use slipway_cluster::helm::{RevisionStatus, codec};
use slipway_cluster::{ObjectPatch, WriteOptions};
use slipway_release::ReleaseStatus;
use slipway_release::plan::ReleaseContent;
use slipway_release::saved::{self, DriftPolicy, SavedPlan};
use slipway_release::{Failure, PlanPurpose, ReleaseReport, execute, plan};
use tokio_util::sync::CancellationToken;

use crate::world::{CONFIG_MAPS, World, annotated, boat, boats, config_map, deployment, job, place, text};

const KEY: &str = "00112233445566778899aabbccddeeff";

async fn carry_out(world: &World, saved: &SavedPlan, drift: DriftPolicy) -> Result<ReleaseReport, Failure> {
    let mut request = saved.request.clone();
    request.options.purpose = PlanPurpose::Execute;
    let plan = plan(&world.cluster, &request, &world.events).await?;
    saved.check_plan(&plan, drift)?;
    execute(&world.cluster, plan, &world.apply, &world.events, CancellationToken::new()).await
}

/// Scenario 40: a saved plan is carried out as it was made, or refused.
#[tokio::test]
async fn saved_plans() {
    let world = World::new();
    world.deployed(&[config_map("a", "1")]).await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": "hunter2"}});
    let plan = world.plan(&[config_map("a", "2"), secret]).await.expect("plans");
    let refused =
        saved::save_plan(&plan, "here", None, world.events.redactor()).expect_err("is not written in clear");
    assert!(refused.to_string().contains("Secret/s is secret"), "{refused}");
    let bytes = saved::save_plan(&plan, "here", Some(KEY), world.events.redactor()).expect("saves");
    let text_of = String::from_utf8_lossy(&bytes);
    assert!(!text_of.contains("hunter2") && !text_of.contains("aHVudGVyMg"), "{text_of}");
    assert!(saved::load_plan(&bytes, None).is_err());
    assert!(saved::load_plan(&bytes, Some("ffffffffffffffffffffffffffffffff")).is_err());
    let tampered = text_of.replace("\"revision\": 2", "\"revision\": 3");
    assert!(saved::load_plan(tampered.as_bytes(), Some(KEY)).is_err());

    let good = saved::load_plan(&bytes, Some(KEY)).expect("loads");
    assert!(good.check_cluster("here").is_ok() && good.check_cluster("").is_ok());
    assert!(matches!(good.check_cluster("elsewhere"), Err(Failure::Stale(_))));
    let now = jiff::Timestamp::now();
    assert!(good.check_age(now, Duration::from_secs(7200)).is_ok());
    let tomorrow = now.saturating_add(Duration::from_secs(86400)).expect("is in range");
    assert!(matches!(good.check_age(tomorrow, Duration::from_secs(7200)), Err(Failure::Stale(_))));

    let patch = ObjectPatch::Merge(json!({"data": {"other": "x"}}));
    let options = WriteOptions::for_manager("someone");
    world.cluster.patch(&place("ConfigMap", "a"), &patch, &options, None).await.expect("writes");
    let refused = carry_out(&world, &good, DriftPolicy::Refuse).await.expect_err("something moved");
    assert!(matches!(refused, Failure::Stale(_)), "{refused:?}");
    assert!(refused.to_string().contains("ConfigMap/a"), "{refused}");
    carry_out(&world, &good, DriftPolicy::Allow).await.expect("is allowed");
    assert_eq!(text(&world.get("ConfigMap", "a").await, "/data/key"), "2");
    let refused =
        carry_out(&world, &good, DriftPolicy::Allow).await.expect_err("the revision is taken").to_string();
    assert!(refused.contains("revision"), "{refused}");

    // What is deployed is what was saved, whatever the source says by now; a rollback stays one.
    let request = world.with(ReleaseContent::Revision(Some(1)));
    let plan = slipway_release::plan(&world.cluster, &request, &world.events).await.expect("plans");
    let bytes = saved::save_plan(&plan, "here", Some(KEY), world.events.redactor()).expect("saves");
    carry_out(&world, &saved::load_plan(&bytes, Some(KEY)).expect("loads"), DriftPolicy::Refuse)
        .await
        .expect("runs");
    let history = world.history().await;
    assert_eq!(history.releases[2].info.description, "Rollback to 1");
    assert_eq!(text(&world.get("ConfigMap", "a").await, "/data/key"), "1");
}

/// Whoever has a key takes nothing that was not written with it, whatever the file says of itself.
#[tokio::test]
async fn refuses_forged_plans_when_there_is_a_key() {
    use sha2::Digest as _;
    let world = World::new();
    let plan = world.plan(&[config_map("a", "1")]).await.expect("plans");
    let known = world.events.redactor();
    let signed = saved::save_plan(&plan, "here", Some(KEY), known).expect("saves");
    let open = saved::save_plan(&plan, "here", None, known).expect("saves");
    let file = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).expect("is JSON");
    let load = |file: &Value, key| saved::load_plan(file.to_string().as_bytes(), key).map(|_| ());
    assert!(load(&file(&signed), Some(KEY)).is_ok() && load(&file(&open), None).is_ok());
    // Sealed again by somebody without the key.
    let reseal = |file: &mut Value| {
        let fields = ["format", "release", "namespace", "revision", "created", "encrypted", "content"];
        let fields: Vec<&Value> = fields.iter().map(|name| &file[*name]).collect();
        let digest = sha2::Sha256::digest(json!(fields).to_string());
        file["seal"] = digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into();
    };
    let mut same = file(&open);
    reseal(&mut same);
    assert_eq!(same, file(&open), "this is how it is done");
    let refused = load(&file(&open), Some(KEY)).expect_err("a plan in clear").to_string();
    assert!(refused.contains("not encrypted") && refused.contains("hint:"), "{refused}");

    let inside = file(&open)["content"].clone();
    let changes = [
        ("format", json!("slipway.plan/v0")),
        ("release", json!("other")),
        ("namespace", json!("other")),
        ("revision", json!(7)),
        ("created", json!("2020-01-01T00:00:00Z")),
        ("encrypted", json!(false)),
        ("encrypted", json!("no")),
        ("content", inside),
        ("content", json!("")),
        ("content", json!(file(&signed)["content"].as_str().expect("is text").replacen('a', "b", 1))),
        ("seal", json!("")),
        ("seal", json!("00")),
        ("seal", json!("zz")),
        ("seal", json!("\u{e9}")),
        ("extra", json!(true)),
    ];
    for (field, value) in &changes {
        let mut forged = file(&signed);
        forged[*field] = value.clone();
        assert!(load(&forged, Some(KEY)).is_err(), "{field}: {value}");
        if *field != "seal" {
            reseal(&mut forged);
            assert!(load(&forged, Some(KEY)).is_err(), "{field}: {value}, sealed again");
        }
        let mut plain = file(&open);
        plain[*field] = value.clone();
        if plain != file(&open) {
            assert!(load(&plain, None).is_err(), "{field}: {value}, of a plan in clear");
        }
        reseal(&mut plain);
        assert!(load(&plain, Some(KEY)).is_err(), "{field}: {value}, of a plan in clear sealed again");
    }
    for field in ["format", "release", "namespace", "revision", "created", "encrypted", "content", "seal"] {
        let mut forged = file(&signed);
        forged.as_object_mut().expect("is a map").remove(field);
        assert!(load(&forged, Some(KEY)).is_err(), "without {field}");
    }
    // A name that runs over into the next field is another name.
    let mut forged = file(&signed);
    (forged["release"], forged["namespace"]) = (json!("demo\nt1"), json!(""));
    assert!(load(&forged, Some(KEY)).is_err());
}

/// Without a key a plan is only saved if nothing in it is known to be secret.
#[tokio::test]
async fn plans_in_clear_hold_no_secret() {
    let world = World::new();
    let known = slipway_event::Redactor::new();
    known.register("tok-12345678");
    let note = |key: &str, value: &str| json!({key: value});
    let open = config_map("a", "1");
    for (what, object, says) in [
        ("marked", annotated(open.clone(), note("werf.io/sensitive", "true")), "ConfigMap/a is secret"),
        (
            "partly",
            annotated(open.clone(), note("werf.io/sensitive-paths", "$.data.key")),
            "ConfigMap/a is secret",
        ),
        ("known", config_map("a", "it says tok-12345678"), "a secret value is part of the plan"),
        ("encoded", config_map("a", "dG9rLTEyMzQ1Njc4"), "a secret value is part of the plan"),
    ] {
        let plan = world.plan(&[object]).await.expect("plans");
        let refused = saved::save_plan(&plan, "here", None, &known).expect_err(what).to_string();
        assert!(refused.contains(says) && refused.contains("give a key"), "{what}: {refused}");
        assert!(saved::save_plan(&plan, "here", Some(KEY), &known).is_ok(), "{what}");
    }
    let mut world = world;
    world.values = json!({"token": "tok-12345678"});
    let plan = world.plan(std::slice::from_ref(&open)).await.expect("plans");
    assert!(saved::save_plan(&plan, "here", None, &known).is_err(), "in the values");
    world.values = json!({});
    let plan = world.plan(&[open]).await.expect("plans");
    let bytes = saved::save_plan(&plan, "here", None, &known).expect("holds nothing secret");
    assert!(saved::load_plan(&bytes, None).is_ok());
}

/// Scenario 41: what Helm needs to read our records, byte by byte. (Helm itself runs in
/// `cargo xtask conformance release`.)
#[tokio::test]
async fn helm_reads_ours() {
    let mut world = World::new();
    world.notes = "hello".into();
    world.values = json!({"a": {"b": 1}});
    let hook = annotated(
        job("migrate", "busybox"),
        json!({"helm.sh/hook": "pre-install,pre-upgrade", "helm.sh/hook-weight": "3", "helm.sh/hook-delete-policy": "before-hook-creation,hook-failed"}),
    );
    world.deployed(&[config_map("a", "1"), hook.clone()]).await;
    world.deployed(&[config_map("a", "2"), hook]).await;
    for (revision, status, description) in
        [(1, "superseded", "Install complete"), (2, "deployed", "Upgrade complete")]
    {
        let record = world.get("Secret", &format!("sh.helm.release.v1.demo.v{revision}")).await;
        assert_eq!(text(&record, "/type"), "helm.sh/release.v1");
        assert_eq!(text(&record, "/metadata/labels/status"), status);
        let outer = STANDARD.decode(text(&record, "/data/release")).expect("the server's own base64");
        let packed = STANDARD.decode(&outer).expect("Helm's base64");
        assert_eq!(packed[..3], [0x1f, 0x8b, 0x08], "gzip");
        let release = serde_json::to_value(codec::decode_release(&outer).expect("decodes")).expect("is JSON");
        for (pointer, value) in [
            ("/name", json!("demo")),
            ("/namespace", json!("t1")),
            ("/version", json!(revision)),
            ("/info/status", json!(status)),
            ("/info/description", json!(description)),
            ("/info/notes", json!("hello")),
            ("/info/deleted", json!("")),
            ("/chart/metadata/name", json!("demo")),
            ("/chart/metadata/version", json!("1.0.0")),
            ("/config", json!({"a": {"b": 1}})),
            ("/apply_method", json!("ssa")),
            ("/hooks/0/events", json!(["pre-install", "pre-upgrade"])),
            ("/hooks/0/weight", json!(3)),
            ("/hooks/0/delete_policies", json!(["before-hook-creation", "hook-failed"])),
            ("/hooks/0/last_run/phase", json!("Succeeded")),
        ] {
            assert_eq!(release.pointer(pointer), Some(&value), "{pointer} of {revision}");
        }
        let manifest = release["manifest"].as_str().expect("is text");
        assert!(manifest.starts_with("---\n# Source: demo/templates/all.yaml\n"), "{manifest}");
        assert!(!manifest.contains("migrate") && !manifest.contains("meta.helm.sh"), "{manifest}");
        assert!(release["chart"]["values"].is_object() || release["chart"]["values"].is_null());
    }
    let history = world.history().await;
    assert_eq!(history.releases[0].info.first_deployed, history.releases[1].info.first_deployed);
}

/// Scenario 42: we read Helm's: its records and objects, its pending and its uninstalled revisions.
#[tokio::test]
async fn we_read_helms() {
    let mut world = World::new();
    // As Helm 3 leaves it: records with `---` and `# Source:`, objects written by `helm` with an update.
    world.settle_in().await;
    let mut theirs = config_map("a", "1");
    theirs["data"]["extra"] = "x".into();
    theirs["metadata"]["annotations"] =
        json!({"meta.helm.sh/release-name": "demo", "meta.helm.sh/release-namespace": "t1"});
    theirs["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "Helm"});
    world.create("helm", &theirs).await;
    let record: slipway_cluster::helm::Release = serde_json::from_value(json!({
        "name": "demo", "namespace": "t1", "version": 1,
        "info": {"first_deployed": "2026-01-02T03:04:05.123456789Z", "last_deployed": "2026-01-02T03:04:05.123456789Z",
            "deleted": "", "description": "Install complete", "status": "deployed"},
        "chart": {"metadata": {"name": "demo", "version": "0.9.0"}, "lock": null, "templates": [], "values": {}, "schema": null, "files": null},
        "manifest": "---\n# Source: demo/templates/a.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: t1\ndata:\n  key: \"1\"\n  extra: x\n",
        "hooks": [{"name": "old", "kind": "Job", "path": "demo/templates/old.yaml", "manifest": "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: old\n", "events": ["crd-install"]}],
    })).expect("is a release");
    world.storage().create(&record).await.expect("stores");
    let uid = |object: Option<Value>| text(&object, "/metadata/uid").to_owned();
    let before = uid(world.get("ConfigMap", "a").await);
    let view = world.plan(&[config_map("a", "2")]).await.expect("plans").view(&Default::default());
    assert_eq!(view.summary, [("update".to_owned(), 1)]);
    world.deployed(&[config_map("a", "2")]).await;
    let live = world.get("ConfigMap", "a").await;
    assert_eq!(live.as_ref().map(|live| live["data"].clone()), Some(json!({"key": "2"})));
    assert_eq!(uid(live), before);
    assert_eq!(world.statuses().await, [(1, RevisionStatus::Superseded), (2, RevisionStatus::Deployed)]);

    let mut pending = world.history().await.releases[1].clone();
    (pending.version, pending.info.status) = (3, RevisionStatus::PendingUpgrade);
    world.storage().create(&pending).await.expect("stores");
    assert_eq!(world.deployed(&[config_map("a", "3")]).await.revision, 4);
    assert_eq!(world.statuses().await[2], (3, RevisionStatus::Failed));
    world.options.keep_history = true;
    world.delete().await;
    assert_eq!(world.statuses().await.last(), Some(&(4, RevisionStatus::Uninstalled)));
    let report = world.deployed(&[config_map("a", "3")]).await;
    assert_eq!(report.revision, 5);
    assert_eq!(world.history().await.releases[4].info.description, "Install complete");
}

/// Scenario 43: the history has a limit, and the deployed revision is never the one to go.
#[tokio::test]
async fn history_limit() {
    let mut world = World::new();
    world.apply.history_limit = 3;
    for number in 0..5 {
        world.deployed(&[config_map("a", &number.to_string())]).await;
    }
    let expected =
        [(3, RevisionStatus::Superseded), (4, RevisionStatus::Superseded), (5, RevisionStatus::Deployed)];
    assert_eq!(world.statuses().await, expected);
    world.apply.presence_timeout = Some(Duration::from_millis(20));
    let never =
        annotated(config_map("b", "1"), json!({"x.external-dependency.werf.io/resource": "secrets/never"}));
    for _ in 0..4 {
        world.failed(std::slice::from_ref(&never)).await;
    }
    let statuses = world.statuses().await;
    assert_eq!((statuses.len(), statuses[0]), (3, (5, RevisionStatus::Deployed)), "{statuses:?}");
}

/// Scenario 44: rolling back, without and with a revision.
#[tokio::test]
async fn rollback() {
    let mut world = World::new();
    world.deployed(&[config_map("a", "1"), config_map("old", "1")]).await;
    world.deployed(&[config_map("a", "2")]).await;
    let report = world.run(&world.with(ReleaseContent::Revision(None))).await.expect("rolls back");
    assert_eq!((report.status.as_str(), report.revision.get()), ("deployed", 3));
    assert_eq!(text(&world.get("ConfigMap", "a").await, "/data/key"), "1");
    assert!(world.get("ConfigMap", "old").await.is_some());
    assert_eq!(world.history().await.releases[2].info.description, "Rollback to 1");
    let again = world.run(&world.with(ReleaseContent::Revision(Some(3)))).await.expect("has nothing to do");
    assert_eq!(again.status, ReleaseStatus::Skipped);
    let missing =
        world.run(&world.with(ReleaseContent::Revision(Some(9)))).await.expect_err("does not exist");
    assert!(
        matches!(missing, Failure::NotFound(_)) && missing.to_string().contains("no revision 9"),
        "{missing}"
    );
    // One that cannot succeed is recorded as failed.
    world.apply.presence_timeout = Some(Duration::from_millis(20));
    let wait = json!({"x.external-dependency.werf.io/resource": "secrets/never"});
    world.failed(&[annotated(config_map("late", "1"), wait)]).await;
    world.deployed(&[config_map("a", "5")]).await;
    let failure = world.run(&world.with(ReleaseContent::Revision(Some(4)))).await.expect_err("cannot");
    assert_eq!(failure.report().map(|report| report.status.as_str()), Some("failed"));
    let statuses = world.statuses().await;
    assert_eq!(statuses[4..], [(5, RevisionStatus::Deployed), (6, RevisionStatus::Failed)]);
}

/// Scenario 45: deleting takes everything but what is kept, in order, and the records.
#[tokio::test]
async fn delete() {
    let (mut world, tap) = World::new().tapped();
    let keep = json!({"werf.io/resource-policy": "keep"});
    let hook = annotated(job("bye", "busybox"), json!({"helm.sh/hook": "pre-delete"}));
    let rbac = "rbac.authorization.k8s.io";
    let mut web = deployment("web", "nginx");
    web["spec"]["template"]["spec"]["serviceAccountName"] = "who".into();
    let objects = [
        config_map("a", "1"),
        annotated(config_map("kept", "1"), keep),
        hook,
        boats(),
        boat("one"),
        web,
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "who"}}),
        json!({"apiVersion": format!("{rbac}/v1"), "kind": "Role", "metadata": {"name": "may"}, "rules": []}),
        json!({"apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding", "metadata": {"name": "bound"},
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "may"},
            "subjects": [{"kind": "ServiceAccount", "name": "who", "namespace": "t1"}]}),
    ];
    world.deployed(&objects).await;
    assert!(world.get("Job", "bye").await.is_none());
    let before = tap.seen().len();
    assert_eq!(world.delete().await.status, ReleaseStatus::Uninstalled);
    let seen = tap.seen().split_off(before);
    let deleted = |end: &str| {
        let found = seen.iter().position(|seen| {
            seen.method == http::Method::DELETE && seen.is_write() && seen.path.ends_with(end)
        });
        found.unwrap_or_else(|| panic!("{end} is not deleted"))
    };
    let hooked = seen
        .iter()
        .position(|seen| seen.path.ends_with("/jobs/bye") && seen.is_write())
        .expect("the hook ran");
    assert!(hooked < deleted("/configmaps/a"));
    assert!(deleted("/boats/one") < deleted("/boats.example.com"));
    assert!(deleted("/rolebindings/bound") < deleted("/roles/may"));
    assert!(deleted("/rolebindings/bound") < deleted("/serviceaccounts/who"));
    assert!(deleted("/deployments/web") < deleted("/serviceaccounts/who"));
    assert!(world.get("ConfigMap", "a").await.is_none());
    assert!(world.get("ConfigMap", "kept").await.is_some());
    assert!(world.history().await.releases.is_empty());
    let again = world.run(&world.with(ReleaseContent::Nothing)).await.expect_err("is gone");
    assert!(matches!(again, Failure::NotFound(_)), "{again}");
    world.deployed(&[config_map("b", "1")]).await;
    world.apply.delete_namespace = true;
    world.delete().await;
    assert!(world.get("Namespace", "t1").await.is_none(), "it was waited for");
}

/// Everything works on the other storage as well.
#[tokio::test]
async fn config_maps_hold_releases_too() {
    use slipway_cluster::helm::StorageScope;
    use slipway_release::inspect;
    let mut world = World::new();
    world.options.driver = CONFIG_MAPS;
    world.deployed(&[config_map("a", "1")]).await;
    world.deployed(&[config_map("a", "2")]).await;
    assert!(world.get("Secret", "sh.helm.release.v1.demo.v1").await.is_none());
    assert!(world.get("ConfigMap", "sh.helm.release.v1.demo.v2").await.is_some());
    let rows = inspect::list_releases(&world.cluster, CONFIG_MAPS, "t1", StorageScope::Everywhere, "")
        .await
        .expect("lists");
    assert_eq!((rows.len(), rows[0].revision), (1, 2));
    assert_eq!(
        inspect::read_history(&world.cluster, CONFIG_MAPS, "t1", "demo").await.expect("reads").len(),
        2
    );
    let read = |revision| inspect::read_revision(&world.cluster, CONFIG_MAPS, "t1", "demo", revision);
    let (one, two) = (read(Some(1)).await.expect("reads"), read(None).await.expect("reads"));
    assert_eq!(inspect::diff_revisions(&one, &two, &Default::default()).len(), 1);
    let patch = ObjectPatch::Merge(json!({"data": {"key": "drifted"}}));
    let options = WriteOptions::for_manager("kubectl-edit");
    world.cluster.patch(&place("ConfigMap", "a"), &patch, &options, None).await.expect("writes");
    let request = world.with(ReleaseContent::Revision(None));
    let drift =
        inspect::find_drift(&world.cluster, &request, None, &Default::default()).await.expect("compares");
    assert_eq!(drift.len(), 1);
    assert!(
        drift[0].reason.as_deref().is_some_and(|who| who.contains("written by kubectl-edit")),
        "{drift:?}"
    );
    world.run(&world.with(ReleaseContent::Revision(None))).await.expect("rolls back");
    assert_eq!(text(&world.get("ConfigMap", "a").await, "/data/key"), "1");
    world.delete().await;
    assert!(world.get("ConfigMap", "sh.helm.release.v1.demo.v3").await.is_none());
}
