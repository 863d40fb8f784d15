//! A server that agrees with everything at once: what is left is the planner's own time.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use slipway_cluster::Cluster;
use slipway_cluster::helm::{RevisionStatus, codec};
use slipway_event::Events;
use slipway_release::{PlanOptions, ReleaseContent, ReleasePlan, ReleaseRequest, plan};
use slipway_source::{Document, DocumentOrigin, RecordPart, RenderedSource};

/// A release of so many objects that refer to each other.
pub(crate) fn wish(count: usize) -> ReleaseRequest {
    let text: Arc<str> = "# nothing\n".into();
    let document = |object: Value| Document {
        object,
        origin: DocumentOrigin::with_text("demo/templates/all.yaml", Arc::clone(&text)),
        stored: RecordPart::Regular,
    };
    let documents = (0..count).map(|number| {
        let name = format!("part-{number:05}");
        let near = format!("part-{:05}", number / 4 * 4);
        document(match number % 4 {
            0 => json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1", "b": "two"}}),
            1 => json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}}),
            2 => json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}),
            _ => json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {"replicas": 1,
                "selector": {"matchLabels": {"app": name}}, "template": {"metadata": {"labels": {"app": name}}, "spec": {
                    "serviceAccountName": format!("part-{:05}", number - 1),
                    "containers": [{"name": "c", "image": "nginx", "envFrom": [{"configMapRef": {"name": near}}]}]}}}}),
        })
    });
    let mut rendered = RenderedSource { documents: documents.collect(), ..RenderedSource::default() };
    let metadata = json!({"apiVersion": "v2", "name": "demo", "version": "1.0.0"});
    rendered.metadata = metadata.as_object().cloned().unwrap_or_default();
    let content = ReleaseContent::Rendered(Box::new(rendered));
    ReleaseRequest { name: "demo".into(), namespace: "t1".into(), content, options: PlanOptions::default() }
}

/// The server. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Echo {
    /// Collections by path, objects by name, as JSON already.
    objects: Arc<Mutex<BTreeMap<String, BTreeMap<String, Bytes>>>>,
    busy: Arc<AtomicU64>,
    requests: Arc<AtomicU64>,
}

impl Echo {
    pub(crate) fn cluster(&self) -> Cluster {
        Cluster::new(kube::Client::new(self.clone(), "default"))
    }

    /// Time the server itself took so far, and how many requests.
    pub(crate) fn spent(&self) -> (Duration, u64) {
        (Duration::from_nanos(self.busy.load(Ordering::Relaxed)), self.requests.load(Ordering::Relaxed))
    }

    /// Behaves from now on as if the plan had been carried out.
    pub(crate) fn carry_out(&self, plan: &ReleasePlan) {
        let mut all = self.objects.lock().expect("nobody panics with it");
        for planned in &plan.objects {
            let plural = format!("{}s", planned.at.gvk.kind.to_lowercase());
            let root = if planned.at.gvk.group.is_empty() {
                "/api/v1".to_owned()
            } else {
                format!("/apis/{}/v1", planned.at.gvk.group)
            };
            let object = planned.predicted.clone().unwrap_or_default();
            let collection = all.entry(format!("{root}/namespaces/t1/{plural}")).or_default();
            collection.insert(planned.at.name.clone(), object.to_string().into());
        }
        let mut release = plan.release.clone();
        release.info.status = RevisionStatus::Deployed;
        let packed = codec::encode_release(&release).expect("encodes");
        let record = json!({"apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1",
            "metadata": {"name": "sh.helm.release.v1.demo.v1", "namespace": "t1", "labels": {"name": "demo", "owner": "helm", "status": "deployed", "version": "1"}},
            "data": {"release": STANDARD.encode(packed)}});
        let records = all.entry("/api/v1/namespaces/t1/secrets".to_owned()).or_default();
        records.insert("sh.helm.release.v1.demo.v1".to_owned(), record.to_string().into());
    }

    fn answer(&self, method: &Method, path: &str, query: &str, body: &Bytes) -> (u16, Bytes) {
        let all = self.objects.lock().expect("nobody panics with it");
        let (collection, name) = path.rsplit_once('/').unwrap_or((path, ""));
        if path == "/api/v1/namespaces/t1" {
            return (200, r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"t1"}}"#.into());
        }
        let resource = |name: &str, kind: &str| {
            format!(r#"{{"name":"{name}","kind":"{kind}","namespaced":true,"verbs":["get","list","patch"]}}"#)
        };
        let discovered = match path {
            "/api" => r#"{"kind":"APIVersions","versions":["v1"]}"#.to_owned(),
            "/apis" => r#"{"kind":"APIGroupList","groups":[{"name":"apps","versions":[{"version":"v1"}],"preferredVersion":{"version":"v1"}}]}"#.to_owned(),
            "/api/v1" => {
                let kinds = [("configmaps", "ConfigMap"), ("services", "Service"), ("serviceaccounts", "ServiceAccount"), ("secrets", "Secret")];
                let all: Vec<String> = kinds.iter().map(|(name, kind)| resource(name, kind)).collect();
                format!(r#"{{"kind":"APIResourceList","groupVersion":"v1","resources":[{}]}}"#, all.join(","))
            }
            "/apis/apps/v1" => format!(r#"{{"kind":"APIResourceList","groupVersion":"apps/v1","resources":[{}]}}"#, resource("deployments", "Deployment")),
            _ => String::new(),
        };
        if !discovered.is_empty() {
            return (200, discovered.into());
        }
        if method == Method::PATCH {
            let known = all.get(collection).and_then(|objects| objects.get(name));
            return (200, known.unwrap_or(body).clone());
        }
        if let Some(objects) = all.get(path) {
            let value =
                |key: &str| query.split('&').find_map(|pair| pair.strip_prefix(key)).unwrap_or_default();
            let start: usize = value("continue=").parse().unwrap_or(0);
            let limit: usize = value("limit=").parse().unwrap_or(usize::MAX);
            let items: Vec<&str> = objects
                .values()
                .skip(start)
                .take(limit)
                .filter_map(|item| std::str::from_utf8(item).ok())
                .collect();
            let next = start + items.len();
            let token = if next < objects.len() { next.to_string() } else { String::new() };
            let text = format!(
                r#"{{"metadata":{{"resourceVersion":"1","continue":"{token}"}},"items":[{}]}}"#,
                items.join(",")
            );
            return (200, text.into());
        }
        if path.ends_with("/namespaces/t1/secrets")
            || ["configmaps", "services", "serviceaccounts", "deployments"].contains(&name)
        {
            return (200, r#"{"metadata":{"resourceVersion":"1"},"items":[]}"#.into());
        }
        match all.get(collection).and_then(|objects| objects.get(name)) {
            Some(object) => (200, object.clone()),
            None => (404, r#"{"kind":"Status","code":404,"reason":"NotFound","message":"not found"}"#.into()),
        }
    }
}

impl<B> tower::Service<Request<B>> for Echo
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
{
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Full<Bytes>>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let echo = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            let started = time_worked();
            let (code, answer) =
                echo.answer(&parts.method, parts.uri.path(), parts.uri.query().unwrap_or_default(), &body);
            echo.busy.fetch_add(time_worked().saturating_sub(started).as_nanos() as u64, Ordering::Relaxed);
            echo.requests.fetch_add(1, Ordering::Relaxed);
            let mut response = Response::new(Full::new(answer));
            *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
            Ok(response)
        })
    }
}

/// The time this thread has worked, whatever else the machine does; the time that passed where the system does not tell.
fn time_worked() -> Duration {
    static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = told.and_then(|text| text.split(' ').next()?.parse().ok()).filter(|nanos| *nanos > 0);
    nanos.map_or_else(|| STARTED.elapsed(), Duration::from_nanos)
}

/// What planning took.
pub(crate) struct Figures {
    pub(crate) total: Duration,
    pub(crate) server: Duration,
    pub(crate) requests: u64,
    pub(crate) plan: ReleasePlan,
}

impl Figures {
    /// The planner's own time.
    pub(crate) fn own(&self) -> Duration {
        self.total.saturating_sub(self.server)
    }
}

/// Plans once.
pub(crate) async fn measure(echo: &Echo, count: usize) -> Figures {
    let (before, wish) = (echo.spent(), wish(count));
    let started = time_worked();
    let plan =
        plan(&echo.cluster(), &wish, &Events::silent()).await.unwrap_or_else(|failure| panic!("{failure}"));
    let (total, after) = (time_worked().saturating_sub(started), echo.spent());
    Figures { total, server: after.0 - before.0, requests: after.1 - before.1, plan }
}
