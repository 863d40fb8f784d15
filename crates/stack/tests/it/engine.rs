//! Stacks through the real release engine on the sandbox: S-25 and S-34 with processes that die at any request, what
//! no change costs, charts from elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::future::pending;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::{Value, json};
use slipway_chart::secret::{self, EncryptionKey};
use slipway_cluster::helm::{Release, ReleaseStorage, RevisionStatus, StorageDriver};
use slipway_cluster::{ApplyOptions, Cluster, ListOptions};
use slipway_event::{Events, ManualClock, Redactor, RunId, Tee};
use slipway_manifest::{Gvk, ObjectRef};
use slipway_sandbox::Sandbox;
use slipway_source::{
    ChartReference, Decryption, FetchError, FetchedChart, Fetcher, LoadContext, OfflineFetcher,
};
use slipway_stack::engine::{Connect, Engine};
use slipway_stack::plan::ClusterRef;
use slipway_stack::record::{EventType, RunEvent, RunStatus, RunStore, StoredRun};
use slipway_stack::resume::Resume;
use slipway_stack::{Error, ExecutedRun, FailMode, NodeError, RunRequest};
use tokio::sync::Notify;
use tower::Service as _;

use crate::support::{Ended, Launch, Place, launch};

/// A lock of a killed process is free after this long.
pub(crate) const LEASE: Duration = Duration::from_millis(100);

const TEMPLATE: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: '{{ .Release.Name }}'}
data: {size: '{{ .Values.size }}'}
---
apiVersion: v1
kind: Service
metadata: {name: '{{ .Release.Name }}'}
spec: {ports: [{port: 80}]}
";

/// Where a process dies: at a request, before or after the server has served it.
struct Death {
    at: usize,
    served: bool,
    requests: AtomicUsize,
    now: Notify,
}

impl Death {
    fn at(at: usize, served: bool) -> Arc<Self> {
        Arc::new(Self { at, served, requests: AtomicUsize::new(0), now: Notify::new() })
    }

    /// A cluster whose client is as dead as its process from that request on.
    fn cluster(self: &Arc<Self>, sandbox: &Sandbox) -> Cluster {
        let (service, death) = (sandbox.service(), Arc::clone(self));
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let (mut service, death) = (service.clone(), Arc::clone(&death));
            async move {
                let number = death.requests.fetch_add(1, Ordering::SeqCst) + 1;
                if number < death.at {
                    return service.call(request).await;
                }
                if number == death.at {
                    if death.served {
                        drop(service.call(request).await);
                    }
                    death.now.notify_one();
                }
                pending().await
            }
        });
        Cluster::new(kube::Client::new(service, "default")).with_lease(LEASE)
    }
}

/// One cluster, and perhaps charts of elsewhere and a key.
pub(crate) struct One {
    cluster: Cluster,
    charts: BTreeMap<String, PathBuf>,
    decryption: Decryption,
}

impl One {
    pub(crate) fn new(cluster: Cluster) -> Self {
        Self { cluster, charts: BTreeMap::new(), decryption: Decryption::default() }
    }
}

impl Connect for One {
    async fn connect(&self, _: &ClusterRef) -> Result<Cluster, NodeError> {
        Ok(self.cluster.clone())
    }
}

/// Charts of elsewhere by their names.
struct Shelf(BTreeMap<String, PathBuf>);

impl Fetcher for Shelf {
    fn fetch_chart<'a>(
        &'a self,
        chart: &'a ChartReference,
    ) -> BoxFuture<'a, Result<FetchedChart, FetchError>> {
        let found = self.0.get(&chart.name).cloned().map(|path| FetchedChart { path, notes: Vec::new() });
        let unknown = || FetchError::new(format!("{} cannot be reached", chart.name));
        Box::pin(std::future::ready(found.ok_or_else(unknown)))
    }

    fn fetch_file<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Vec<u8>, FetchError>> {
        OfflineFetcher.fetch_file(url)
    }
}

/// A directory of files, and a clock that goes on from one process to the next.
pub(crate) struct World {
    place: Place,
    pub(crate) sandbox: Sandbox,
    clock: Arc<ManualClock>,
}

impl World {
    fn new(place: Place) -> Self {
        Self::on(place, Sandbox::builder().seed(1).build().expect("the sandbox starts"))
    }

    pub(crate) fn on(place: Place, sandbox: Sandbox) -> Self {
        let clock = Arc::new(ManualClock::at(jiff::Timestamp::now()));
        Self { place, sandbox, clock }
    }

    fn store(&self) -> RunStore {
        RunStore::new(&self.place.path().canonicalize().unwrap(), self.clock.clone())
    }

    pub(crate) fn launch(&self) -> Launch {
        let run = RunRequest {
            request: self.place.request(),
            concurrency: Some(16),
            fail_mode: FailMode::ContinueOnError,
            ..RunRequest::default()
        };
        Launch { run, owner: "t@here:1".into(), ..Launch::default() }
    }

    /// A process from its start to its end.
    pub(crate) async fn run(&self, options: Launch, connect: One) -> Result<Ended, Error> {
        // Long enough after the one before for everything it held to have run out.
        self.clock.advance(Duration::from_secs(60));
        let root = self.place.path().canonicalize().unwrap();
        let run = RunId::generate(&*self.clock);
        let events = Events::new(run, self.clock.clone(), Redactor::new(), Arc::new(Tee::default()));
        let sources = LoadContext {
            fetcher: Arc::new(Shelf(connect.charts.clone())),
            decryption: connect.decryption.clone(),
            redactor: events.redactor().clone(),
            ..LoadContext::default()
        };
        let engine = Engine { root, connect, sources, profile: None, events: events.clone(), policy: None };
        launch(options, &self.store(), &engine, |_| None, &events).await
    }

    /// A process that dies unless it ends before.
    async fn run_to_death(&self, options: Launch, death: &Arc<Death>) -> Option<Result<Ended, Error>> {
        let connect = One::new(death.cluster(&self.sandbox));
        tokio::select! {
            biased;
            () = death.now.notified() => None,
            ended = self.run(options, connect) => Some(ended),
        }
    }

    pub(crate) fn last(&self) -> StoredRun {
        let store = self.store();
        let run = store.list(1, |_| false).into_iter().next().expect("a run");
        store.open(&run.run_id).unwrap()
    }

    fn cluster(&self) -> Cluster {
        Cluster::new(self.sandbox.client()).with_lease(LEASE)
    }

    async fn history(&self, namespace: &str, name: &str) -> Vec<Release> {
        let storage = ReleaseStorage::new(self.cluster(), StorageDriver::Secret, namespace);
        storage.read_history(name).await.expect("can be read").releases.clone()
    }

    /// What everybody but us would see of the releases: their objects, without what differs from run to run.
    async fn objects(&self) -> BTreeSet<String> {
        let cluster = self.cluster();
        let kinds = cluster.served_kinds().await.expect("kinds");
        let mut all = BTreeSet::new();
        for name in ["configmaps", "services"] {
            let kind = kinds.by_name(name).expect("a kind");
            for item in cluster.list(kind, None, &ListOptions::default()).await.expect("a list").items {
                let name = item["metadata"]["name"].as_str().unwrap_or_default();
                if !name.starts_with('r') {
                    continue;
                }
                all.insert(format!(
                    "{}/{name} {} {}",
                    item["metadata"]["namespace"], item["data"], item["spec"]["ports"]
                ));
            }
        }
        all
    }
}

/// Thirty releases in five layers; one of them goes to a namespace that is not there yet.
fn thirty() -> Place {
    let place = Place::new(&[("values.yaml", "size: 3\n")]);
    place.chart("chart").write("chart/templates/all.yaml", TEMPLATE).write("chart/values.yaml", "size: 1\n");
    let mut text = String::from(
        "name: thirty\ndefaults: {namespace: shop, apply: {wait: true, timeout: 1m}}\nreleases:\n",
    );
    for number in 0..30 {
        let needs = if number < 6 { String::new() } else { format!("r{}, r{}", number - 6, number - 5) };
        let late = if number == 7 { "namespace: late, apply: {createNamespace: false}, " } else { "" };
        let values = if number % 2 == 0 { "values.yaml" } else { "" };
        text +=
            &format!("- {{name: r{number}, chart: ./chart, {late}values: [{values}], needs: [{needs}]}}\n");
    }
    place.write("stack.yaml", &text);
    place
}

async fn create_namespace(cluster: &Cluster, name: &str) {
    let manifest = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    cluster
        .apply(
            &ObjectRef::new(Gvk::new("", "v1", "Namespace"), None, name),
            &manifest,
            &ApplyOptions::new("t"),
        )
        .await
        .expect("a namespace");
}

fn resumed() -> Option<Resume> {
    Some(Resume::default())
}

/// Scenario S-25 of the specification.
#[tokio::test]
async fn a_process_that_dies_at_its_first_request_has_said_so() {
    for served in [false, true] {
        let world = World::new(thirty());
        let ended = world.run_to_death(world.launch().concurrency(1), &Death::at(1, served)).await;
        assert!(ended.is_none());
        let events = world.last().events;
        let kinds: Vec<EventType> = events.iter().map(|event| event.kind).collect();
        let running = kinds.iter().filter(|kind| **kind == EventType::NodeRunning).count();
        assert_eq!((kinds[0], running), (EventType::RunStarted, 1), "{kinds:?}");
    }
}

/// Scenario S-34 of the specification.
#[tokio::test]
async fn a_stack_of_thirty_ends_the_same_wherever_its_process_dies() {
    let quiet = World::new(thirty());
    create_namespace(&quiet.cluster(), "late").await;
    let ended = quiet.run(quiet.launch(), One::new(quiet.cluster())).await.expect("runs");
    assert!(matches!(&ended, Ended::Ran(ran) if ran.outcome.success), "{ended:?}");
    let expected = quiet.objects().await;
    assert_eq!(expected.len(), 60);

    // Where in its work a process dies is up to the scheduler: usually the first rounds have seen everything.
    let (mut marked, mut told) = (0, 0);
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..40 {
        if round >= 5 && marked > 0 && told > 0 {
            break;
        }
        let world = World::new(thirty());
        let (mut deaths, mut failed) = (0, false);
        loop {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            // Later lives are longer, so that the run ends.
            let death = Death::at(1 + (seed % (40 + 20 * deaths)) as usize, seed & (1 << 40) == 0);
            let resume = if world.store().list(1, |_| false).is_empty() { None } else { resumed() };
            match world.run_to_death(world.launch().resume(resume), &death).await {
                None => deaths += 1,
                Some(ended) => {
                    let Ended::Ran(ExecutedRun { outcome, .. }) = ended.expect("goes on") else {
                        panic!("something was left")
                    };
                    if outcome.success {
                        break;
                    }
                    // Everything that can be done without the namespace is done; nothing else failed.
                    assert!(!failed, "round {round}: only once");
                    failed = true;
                    let node = &outcome.summary.nodes["default/late/r7"];
                    assert!(
                        node.last_error.as_deref().unwrap_or_default().contains("does not exist"),
                        "{node:?}"
                    );
                    create_namespace(&world.cluster(), "late").await;
                }
            }
            check(&world.last(), round);
            assert_eq!(world.store().list(9, |_| false).len(), 1, "a new run was started");
        }
        let stored = world.last();
        check(&stored, round);
        assert!(failed && deaths > 0, "round {round}: {deaths} deaths");
        assert_eq!(stored.summary.status, RunStatus::Succeeded);
        assert_eq!(stored.summary.totals.succeeded, 30);
        assert_eq!(world.objects().await, expected, "round {round}");
        for node in &stored.plan.nodes {
            let history = world.history(&node.namespace, &node.name).await;
            let statuses: Vec<RevisionStatus> = history.iter().map(|release| release.info.status).collect();
            let deployed = statuses.iter().filter(|status| **status == RevisionStatus::Deployed).count();
            let rest = statuses
                .iter()
                .all(|status| matches!(status, RevisionStatus::Deployed | RevisionStatus::Failed));
            assert!(
                deployed == 1 && rest && statuses.last() == Some(&RevisionStatus::Deployed),
                "{}: {statuses:?}",
                node.id
            );
            let by_us = |release: &&Release| release.info.description.contains(&stored.plan.run_id);
            let by_us = history.iter().filter(by_us).count();
            let recovered = |event: &&RunEvent| {
                event.kind == EventType::NodeRecovered && event.node_id.as_ref() == Some(&node.id)
            };
            let recovered = stored.events.iter().filter(recovered).count();
            // A process may die between the mark and the record of it, never the other way round.
            assert!(recovered <= by_us, "round {round}: {} was not marked", node.id);
            marked += by_us;
            told += recovered;
        }
    }
    assert!(marked > 0 && told > 0, "no process died with a revision pending");
}

/// What succeeded is never started again, and what failed is.
fn check(stored: &StoredRun, round: usize) {
    let mut done = BTreeSet::new();
    for event in &stored.events {
        let Some(id) = &event.node_id else { continue };
        match event.kind {
            EventType::NodeRunning => {
                assert!(!done.contains(id), "round {round}: {id} was started after it succeeded");
            }
            EventType::NodeSucceeded => {
                assert!(done.insert(id.clone()), "round {round}: {id} succeeded twice");
            }
            _ => {}
        }
    }
}

/// Scenario S-34 of the specification.
#[tokio::test]
async fn a_revision_somebody_else_works_on_is_left_alone() {
    let place = Place::new(&[(
        "stack.yaml",
        "name: s\nreleases: [{name: r1, chart: ./chart, apply: {timeout: 1m}}]\n",
    )]);
    place.chart("chart").write("chart/templates/all.yaml", TEMPLATE);
    let world = World::new(place);
    let run = async |launch: Launch| {
        let Ok(Ended::Ran(ExecutedRun { outcome, .. })) = world.run(launch, One::new(world.cluster())).await
        else {
            panic!("no run");
        };
        outcome
    };
    assert!(run(world.launch()).await.success);
    world.place.write("chart/values.yaml", "size: 9\n");
    let storage = ReleaseStorage::new(world.cluster(), StorageDriver::Secret, "default");
    let mut pending = world.history("default", "r1").await[0].clone();
    pending.version = 2;
    pending.info.status = RevisionStatus::PendingUpgrade;
    pending.info.last_deployed = jiff::Timestamp::now().into();
    storage.create(&pending).await.expect("stores");
    let outcome = run(world.launch()).await;
    let node = &outcome.summary.nodes["default/default/r1"];
    assert_eq!(node.last_error_class.as_deref(), Some("HELM_BUSY"), "{node:?}");
    assert_eq!(world.history("default", "r1").await[1].info.status, RevisionStatus::PendingUpgrade);
    // Nobody works that long.
    pending.info.last_deployed = (jiff::Timestamp::now() - Duration::from_secs(120)).into();
    storage.update(&pending).await.expect("stores");
    assert!(run(world.launch()).await.success);
    let statuses: Vec<RevisionStatus> =
        world.history("default", "r1").await.iter().map(|one| one.info.status).collect();
    assert_eq!(statuses, [RevisionStatus::Superseded, RevisionStatus::Failed, RevisionStatus::Deployed]);
}

#[tokio::test]
async fn three_hundred_releases_without_a_change_write_nothing() {
    let place = Place::new(&[]);
    place.chart("chart").write("chart/templates/all.yaml", TEMPLATE).write("chart/values.yaml", "size: 1\n");
    let mut text = String::from("name: many\nreleases:\n");
    for number in 0..300 {
        let needs = if number < 30 { String::new() } else { format!("r{}", number - 30) };
        text += &format!(
            "- {{name: r{number}, chart: ./chart, namespace: n{}, needs: [n{}/{needs}]}}\n",
            number % 10,
            number % 10
        )
        .replace(&format!("[n{}/]", number % 10), "[]");
    }
    place.write("stack.yaml", &text);
    let world = World::new(place);
    let cluster = world.cluster();
    let mut summaries = Vec::new();
    let mut writes = Vec::new();
    for _ in 0..2 {
        let before = cluster.call_counts();
        let ended = world.run(world.launch(), One::new(cluster.clone())).await.expect("runs");
        let Ended::Ran(ExecutedRun { outcome, .. }) = ended else { panic!("no run") };
        assert!(outcome.success);
        writes.push(cluster.call_counts().since(&before).write_count());
        summaries.push(outcome.summary);
    }
    assert!(writes[0] >= 300, "{writes:?}");
    assert_eq!(writes[1], 0, "the second run");
    assert!(summaries[1].nodes.values().all(|node| node.changed == Some(false) && node.revision == Some(1)));
}

/// Packs a chart of one version.
/// Objects are not waited for where `wait` is false; hooks are, and one that fails fails its release.
#[tokio::test]
async fn hooks_are_waited_for_without_wait() {
    let hook = "\
apiVersion: batch/v1
kind: Job
metadata: {name: check, annotations: {helm.sh/hook: post-install}}
spec:
  backoffLimit: 0
  template:
    metadata: {annotations: {sim/fail: 'true'}}
    spec: {restartPolicy: Never, containers: [{name: check, image: check}]}
";
    let place = Place::new(&[(
        "stack.yaml",
        "name: s\nreleases: [{name: a, chart: ./chart, apply: {wait: false, atomic: false}}]\n",
    )]);
    place.chart("chart").write("chart/templates/hook.yaml", hook);
    let world = World::new(place);
    let ended = world.run(world.launch(), One::new(world.cluster())).await.expect("runs");
    let Ended::Ran(ExecutedRun { outcome, .. }) = ended else { panic!("no run") };
    assert!(!outcome.success);
}

fn packed(place: &Place, version: &str) -> PathBuf {
    let dir = format!("elsewhere/{version}");
    place.write(&format!("{dir}/Chart.yaml"), &format!("apiVersion: v2\nname: far\nversion: {version}\n"));
    place.write(&format!("{dir}/templates/all.yaml"), TEMPLATE);
    let path = place.path().join(&dir);
    let chart =
        slipway_chart::Chart::load(path.as_path(), &slipway_chart::LoadOptions::default()).expect("a chart");
    let package =
        slipway_chart::package_chart(&chart, &slipway_chart::PackageOptions::default()).expect("packs");
    let archive = place.path().join(package.file_name);
    fs::write(&archive, package.bytes).unwrap();
    archive
}

#[tokio::test]
async fn charts_from_elsewhere_are_fetched_once_and_kept() {
    let place = Place::new(&[(
        "stack.yaml",
        "name: s\ndefaults: {apply: {createNamespace: false}}\nreleases:\n\
         - {name: r1, chart: repo/far, chartVersion: ^1.0.0}\n- {name: r2, chart: 'oci://host/far', namespace: late}\n",
    )]);
    fs::write(place.path().join(".slipwayignore"), "elsewhere\n").unwrap();
    let (one, two) = (packed(&place, "1.2.3"), packed(&place, "2.0.0"));
    let world = World::new(place);
    let error = world.run(world.launch(), One::new(world.cluster())).await.expect_err("nobody is there");
    let text = error.to_string();
    for id in ["default/default/r1", "default/late/r2"] {
        assert!(text.contains(&format!("release {id}: cannot fetch the chart")), "{text}");
    }
    assert!(world.store().list(9, |_| false).is_empty(), "no run was made");

    let charts = BTreeMap::from([("repo/far".into(), one), ("oci://host/far".into(), two.clone())]);
    let connect = One { charts, ..One::new(world.cluster()) };
    let Ok(Ended::Ran(ExecutedRun { outcome, .. })) = world.run(world.launch(), connect).await else {
        panic!("no run")
    };
    assert!(!outcome.success, "a namespace is missing");
    let plan = world.last().plan;
    let node = plan.node("default/default/r1").unwrap();
    assert_eq!((node.chart.as_str(), node.chart_version.as_deref()), ("repo/far", Some("1.2.3")));
    let digest = plan.node("default/late/r2").unwrap().chart_digest.clone().expect("a digest");
    let kept = |digest: &str| {
        let hex = digest.trim_start_matches("sha256:");
        world.place.path().join(format!(".slipway/cache/charts/sha256/{hex}.tgz"))
    };
    assert_eq!(fs::read(kept(&digest)).unwrap(), fs::read(&two).unwrap());

    // Going on needs nobody, as long as the very bytes are there; other bytes are refused.
    create_namespace(&world.cluster(), "late").await;
    fs::write(kept(&digest), "damaged").unwrap();
    let charts = BTreeMap::from([("oci://host/far".into(), kept(node.chart_digest.as_deref().unwrap()))]);
    let connect = One { charts, ..One::new(world.cluster()) };
    let launch = || world.launch().resume(resumed());
    let Ok(Ended::Ran(ExecutedRun { outcome, .. })) = world.run(launch(), connect).await else {
        panic!("no run")
    };
    let error = outcome.summary.nodes["default/late/r2"].last_error.clone().unwrap_or_default();
    assert!(error.contains("is not the one that was planned"), "{error}");
    fs::copy(&two, kept(&digest)).unwrap();
    let Ok(Ended::Ran(ExecutedRun { outcome, .. })) = world.run(launch(), One::new(world.cluster())).await
    else {
        panic!("no run")
    };
    assert!(outcome.success, "{:?}", outcome.summary.nodes);
    let version =
        |release: &Release| release.chart.metadata.get("version").and_then(Value::as_str).map(str::to_owned);
    assert_eq!(version(world.history("late", "r2").await.last().unwrap()).as_deref(), Some("2.0.0"));
}

#[tokio::test]
async fn plans_and_drift_are_told_release_by_release() {
    let place = Place::new(&[(
        "stack.yaml",
        "name: s\nreleases:\n- {name: r1, chart: ./chart}\n- {name: r2, chart: ./chart, needs: [r1]}\n\
         - {name: r3, chart: ./broken, needs: [r2]}\n",
    )]);
    place.chart("chart").write("chart/templates/all.yaml", TEMPLATE);
    place.chart("broken").write("broken/templates/all.yaml", "{{ fail \"no\" }}");
    let world = World::new(place);
    let root = world.place.path().canonicalize().unwrap();
    let sources = LoadContext::default();
    let connect = One::new(world.cluster());
    let engine = Engine { root, connect, sources, profile: None, events: Events::silent(), policy: None };
    let plan = world.place.compile().plan;
    let previews = slipway_stack::survey::previews(&plan, &engine).await;
    let found: Vec<_> = previews
        .iter()
        .map(|one| (one.id.as_str(), one.found.as_ref().map(|found| found.create).ok()))
        .collect();
    assert_eq!(
        found,
        [("default/default/r1", Some(2)), ("default/default/r2", Some(2)), ("default/default/r3", None)]
    );
    assert!(previews[0].found.as_ref().unwrap().diff.contains("create ConfigMap"), "{previews:?}");
    assert_eq!(world.cluster().call_counts().write_count(), 0);

    drop(world.run(world.launch(), One::new(world.cluster())).await.expect("runs"));
    let verdicts = slipway_stack::survey::verdicts(&plan, &engine).await;
    let clean: Vec<bool> = verdicts.iter().map(|one| one.found.as_ref().unwrap().is_clean()).collect();
    assert_eq!(clean, [true, true, false]);
    assert!(verdicts[2].found.as_ref().unwrap().absent);
    let at = ObjectRef::new(Gvk::new("", "v1", "ConfigMap"), Some("default"), "r2");
    let changed =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "r2"}, "data": {"size": "x"}});
    world
        .cluster()
        .apply(&at, &changed, &ApplyOptions { force: true, ..ApplyOptions::new("somebody") })
        .await
        .expect("applies");
    let verdicts = slipway_stack::survey::verdicts(&plan, &engine).await;
    let drifted = &verdicts[1].found.as_ref().unwrap().drifted;
    assert!(drifted.len() == 1 && drifted[0].contains("r2"), "{drifted:?}");
    let previews = slipway_stack::survey::previews(&plan, &engine).await;
    assert!(
        previews[0].found.as_ref().unwrap().is_empty() && previews[1].found.as_ref().unwrap().update == 1
    );
}

#[tokio::test]
async fn encrypted_values_of_a_chart_are_decrypted_in_a_stack() {
    let key = EncryptionKey::parse("00112233445566778899aabbccddeeff").expect("is a key");
    let encrypted = secret::encrypt_values("size: deep-secret\n", &key).expect("encrypts");
    let place = Place::new(&[
        ("stack.yaml", "name: s\nreleases:\n- {name: r1, chart: ./c}\n"),
        ("c/Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n"),
        ("c/templates/all.yaml", TEMPLATE),
        ("c/secret-values.yaml", &encrypted),
    ]);
    let world = World::new(place);
    let other = EncryptionKey::parse(&"ab".repeat(16)).expect("is a key");
    let with = |key: &EncryptionKey| One {
        decryption: Decryption::Decrypt(Arc::new(key.clone())),
        ..One::new(world.cluster())
    };
    let ended = world.run(world.launch(), with(&other)).await;
    let Ok(Ended::Ran(ExecutedRun { outcome, .. })) = ended else { panic!("no run") };
    let error = outcome.summary.nodes["default/default/r1"].last_error.clone().unwrap_or_default();
    assert!(error.contains("decrypt secret-values.yaml"), "{error}");
    let ended = world.run(world.launch(), with(&key)).await;
    let Ok(Ended::Ran(ExecutedRun { outcome, .. })) = ended else { panic!("no run") };
    assert!(outcome.success, "{:?}", outcome.summary.nodes);
    let at = ObjectRef::new(Gvk::new("", "v1", "ConfigMap"), Some("default"), "r1");
    let live = world.cluster().get(&at).await.expect("can be read").expect("is there");
    assert_eq!(live["data"]["size"], "deep-secret");
    let history = world.history("default", "r1").await;
    assert!(history.last().expect("is recorded").config.is_empty(), "the record holds what the user gave");
}
