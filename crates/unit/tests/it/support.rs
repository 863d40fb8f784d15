//! A cluster, a chart and units made of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value};
use slipway_chart::{Capabilities, UserValues};
use slipway_cluster::Cluster;
use slipway_event::{Clock, Events, ManualClock, Memory, Redactor, RunId, SystemClock};
use slipway_release::{ExecuteOptions, PlanOptions};
use slipway_sandbox::Sandbox;
use slipway_secrets::{Interpolation, NodeContext, find_references};
use slipway_source::{LoadContext, RenderSettings, ResolveError, ResolvedValues, SecretResolver, SourcePath};
use slipway_unit::*;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

pub(crate) const DIGEST: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
pub(crate) const OTHER: &str = "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

pub(crate) const ABOUT: &str = "apiVersion: v2\nname: shop\nversion: 1.2.3\nappVersion: '9'\n";
pub(crate) const VALUES: &str = "replicaCount: 1\ngreeting: hello\npassword: none\nannotations: {}\nimage:\n  repository: acme/shop\n  tag: '1.0'\n";
pub(crate) const DEPLOYMENT: &str = r#"apiVersion: apps/v1
kind: Deployment
metadata:
  name: shop
spec:
  replicas: {{ .Values.replicaCount }}
  selector: { matchLabels: { app: shop } }
  template:
    metadata:
      labels: { app: shop }
      annotations: {{ toJson .Values.annotations }}
    spec:
      containers:
        - name: shop
          image: "{{ .Values.image.repository }}:{{ .Values.image.tag }}"
"#;
pub(crate) const REST: &str = r#"apiVersion: v1
kind: Service
metadata: { name: shop }
spec:
  selector: { app: shop }
  ports: [{ port: 80 }]
---
apiVersion: v1
kind: ConfigMap
metadata: { name: shop }
data: { greeting: "{{ .Values.greeting }}" }
---
apiVersion: v1
kind: Secret
metadata: { name: shop }
stringData: { password: "{{ .Values.password }}" }
"#;

/// Writes files below a new directory.
pub(crate) fn folder(files: &[(&str, &str)]) -> TempDir {
    let place = tempfile::tempdir().expect("a directory");
    for (name, text) in files {
        let path = place.path().join(name);
        std::fs::create_dir_all(path.parent().expect("has a parent")).expect("a directory");
        std::fs::write(path, text).expect("is written");
    }
    place
}

pub(crate) fn shop() -> TempDir {
    folder(&[
        ("shop/Chart.yaml", ABOUT),
        ("shop/values.yaml", VALUES),
        ("shop/templates/deployment.yaml", DEPLOYMENT),
        ("shop/templates/rest.yaml", REST),
    ])
}

/// A backend of secrets in memory.
#[derive(Debug, Default)]
pub(crate) struct Backend {
    pub(crate) secret: Mutex<String>,
    pub(crate) redactor: Redactor,
    pub(crate) fetches: bool,
}

impl SecretResolver for Backend {
    fn resolve(
        &self,
        values: &Map<String, Value>,
        _: &NodeContext,
    ) -> Result<Option<ResolvedValues>, ResolveError> {
        let tree = Value::Object(values.clone());
        let found = find_references(&tree, Interpolation::Off).map_err(ResolveError::from)?;
        if found.is_empty() {
            return Ok(None);
        }
        let replaced = |value: &dyn Fn(&str) -> String| {
            let mut values = values.clone();
            for found in &found {
                values.insert(found.at.clone(), value(&found.reference.path_and_field()).into());
            }
            values
        };
        let secret = self.secret.lock().expect("is free").clone();
        let masked = replaced(&|path| format!("⟦secret:vault/{path}⟧"));
        let varied = replaced(&|path| format!("⟦secret:vault/{path}⟧~"));
        let used = if self.fetches {
            self.redactor.register(&secret);
            replaced(&|_| secret.clone())
        } else {
            masked.clone()
        };
        Ok(Some(ResolvedValues { used, masked, varied }))
    }
}

pub(crate) struct World {
    pub(crate) sandbox: Sandbox,
    pub(crate) cluster: Cluster,
    pub(crate) place: TempDir,
    pub(crate) masked: LoadContext,
    pub(crate) resolving: LoadContext,
    pub(crate) backend: Arc<Backend>,
    pub(crate) settings: RenderSettings,
    pub(crate) events: Events,
    pub(crate) recorder: Arc<Memory>,
}

impl World {
    pub(crate) fn new() -> Self {
        let sandbox = Sandbox::builder().seed(1).build().expect("the sandbox starts");
        let cluster = Cluster::new(sandbox.client());
        let redactor = Redactor::new();
        let backend = |fetches| {
            Arc::new(Backend {
                secret: Mutex::new("s3nt1nel-first".to_owned()),
                redactor: redactor.clone(),
                fetches,
            })
        };
        let (show, fetch) = (backend(false), backend(true));
        let context =
            |resolver: Arc<Backend>| LoadContext { resolver: Some(resolver), ..LoadContext::default() };
        let recorder = Arc::new(Memory::default());
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let events = Events::new(RunId::generate(&*clock), clock, redactor.clone(), recorder.clone());
        Self {
            sandbox,
            cluster,
            place: tempfile::tempdir().expect("a directory"),
            masked: context(show),
            resolving: context(fetch.clone()),
            backend: fetch,
            settings: RenderSettings::default(),
            events,
            recorder,
        }
    }

    pub(crate) fn loader(&self) -> UnitLoader<'_> {
        UnitLoader { masked: &self.masked, resolving: &self.resolving, settings: &self.settings }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    pub(crate) async fn bundle(&self, name: &str, request: BundleRequest) -> UnitFile {
        let path = self.path(name);
        make(request, &self.masked, &path).await.unwrap_or_else(|error| panic!("{error}"));
        open(&path)
    }

    pub(crate) fn target(&self, env: &str) -> UnitTarget {
        UnitTarget {
            env: Some(env.to_owned()),
            cluster: "sandbox".to_owned(),
            cluster_uid: None,
            namespace: env.to_owned(),
            release: "shop".to_owned(),
        }
    }

    pub(crate) fn request<'a>(&self, unit: &'a UnitFile, env: &str) -> ApplyRequest<'a> {
        ApplyRequest {
            unit,
            target: self.target(env),
            overlay: None,
            plan: PlanOptions::default(),
            execute: ExecuteOptions::default(),
            repeated: RepeatedApply::Skip,
            evidence: EvidenceNeed::None,
            verify: Some(VerifyOptions { soak: Duration::ZERO, ..VerifyOptions::default() }),
            on_failure: FailedVerification::Hold,
            strategy: None,
        }
    }

    pub(crate) fn plan_context(&self) -> PlanContext<'_> {
        PlanContext {
            cluster: &self.cluster,
            loader: self.loader(),
            events: &self.events,
            policies: None,
            now: Timestamp::now(),
        }
    }

    pub(crate) fn context(&self, unit: &UnitFile) -> ApplyContext<'_> {
        ApplyContext {
            plan: self.plan_context(),
            ledger: ledger(unit),
            cancel: CancellationToken::new(),
            recorder: Some(self.recorder.clone()),
        }
    }

    pub(crate) async fn apply(&self, unit: &UnitFile, env: &str) -> Result<ApplyOutcome, UnitError> {
        apply_unit(&self.request(unit, env), &self.context(unit)).await
    }
}

pub(crate) fn ledger(unit: &UnitFile) -> UnitLedger {
    UnitLedger::of(unit, LedgerIdentity { actor: "alice".to_owned(), host: "laptop".to_owned() })
}

pub(crate) fn open(path: &Path) -> UnitFile {
    UnitFile::open(path, &OpenOptions::default()).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn request_for(source: &Path) -> BundleRequest {
    BundleRequest {
        source: SourcePath::detect(source).unwrap_or_else(|problem| panic!("{problem}")),
        reference: source.display().to_string(),
        values: UserValues::default(),
        release: "shop".into(),
        namespace: "dev".into(),
        env: None,
        capabilities: Capabilities::default(),
        images: Vec::new(),
        builds: Vec::new(),
        mapping: ImageMapping::default(),
        inferred: InferredBindings::Refuse,
        pin: PinMode::Inputs,
        nondeterministic: NondeterministicFields::Refuse,
        strategy: None,
        overlay_slots: BTreeMap::new(),
        policies: None,
        revision: None,
        parent: None,
        settings: RenderSettings::default(),
    }
}

pub(crate) fn set(texts: &[&str]) -> UserValues {
    UserValues { set: texts.iter().map(|text| (*text).to_owned()).collect(), ..UserValues::default() }
}

pub(crate) async fn make(
    request: BundleRequest,
    masked: &LoadContext,
    path: &Path,
) -> Result<BundleReport, UnitError> {
    make_at(request, masked, path, "2026-01-01T00:00:00Z").await
}

pub(crate) async fn make_at(
    request: BundleRequest,
    masked: &LoadContext,
    path: &Path,
    time: &str,
) -> Result<BundleReport, UnitError> {
    let clock = ManualClock::at(time.parse().expect("is a time"));
    let context = BundleContext {
        masked,
        images: None,
        redactor: &Redactor::new(),
        clock: &clock,
        tool: "slipway test",
        builder: "alice@laptop",
    };
    bundle(request, &context, path).await
}
