//! The handle engines hold: a client, the kinds the cluster serves, the limits of concurrent requests.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use futures::future::join_all;
use http::header::{ACCEPT, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use slipway_manifest::Gvk;
use tokio::sync::{OnceCell, Semaphore};

use crate::calls::{CallCounters, CallCounts, RequestVerb};
use crate::connect::LoginOrigin;
use crate::deadline::Deadline;
use crate::error::{ConnectionFault, Error, ErrorClass};
use crate::gate::WriteGate;
use crate::helm::{ReleasePlace, StorageDriver};
use crate::kinds::{self, ServedKind, ServedKinds};
use crate::request::{ApiCall, RetryPolicy};
use crate::watch::SharedWatches;

/// The minor version of Kubernetes from which every server streams lists, unless that is switched off.
const FIRST_WITH_STREAMED_LISTS: u32 = 34;

/// Limits of concurrent requests. Watches and logs do not count. All of them together stay below the hundred that servers let
/// through one connection at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    pub reads: usize,
    pub writes: usize,
}

impl Default for RequestLimits {
    fn default() -> RequestLimits {
        RequestLimits { reads: 64, writes: 30 }
    }
}

/// The version a server reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerVersion {
    #[serde(default)]
    pub major: String,
    #[serde(default)]
    pub minor: String,
    /// `v1.37.0`, perhaps with a suffix of the vendor.
    #[serde(default)]
    pub git_version: String,
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.git_version)
    }
}

impl ServerVersion {
    /// The number after the first point; vendors put signs behind it.
    fn minor_number(&self) -> Option<u32> {
        self.minor.trim_end_matches(|sign: char| !sign.is_ascii_digit()).parse().ok()
    }

    /// Returns true if a watch can begin with what is there already (a list and a watch in one request).
    pub(crate) fn streams_lists(&self) -> bool {
        self.major == "1" && self.minor_number() >= Some(FIRST_WITH_STREAMED_LISTS)
    }
}

/// Makes a client anew when the old one's credentials have expired.
pub(crate) type ReconnectFn =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<kube::Client, Error>> + Send>> + Send + Sync>;

/// A Kubernetes cluster; cheap to clone.
#[derive(Clone)]
pub struct Cluster(pub(crate) Arc<ClusterInner>, pub(crate) RequestBounds);

/// The bounds of one handle's requests.
#[derive(Clone, Default)]
pub(crate) struct RequestBounds {
    /// Writes pass through it.
    pub(crate) gate: Option<WriteGate>,
    /// Every request gives up after it.
    pub(crate) deadline: Option<Deadline>,
    /// The duration of locks without renewal, if it differs from the usual.
    pub(crate) lease: Option<Duration>,
    /// The origin of the credentials, for errors.
    pub(crate) login: Option<Arc<LoginOrigin>>,
    /// The place of the cluster's releases.
    pub(crate) releases: Arc<ReleasePlace>,
}

pub(crate) struct ClusterInner {
    /// The client and how often it was made.
    client: RwLock<(kube::Client, u64)>,
    reconnect: Option<ReconnectFn>,
    namespace: String,
    pub(crate) retry: RetryPolicy,
    limits: RequestLimits,
    pub(crate) reads: Semaphore,
    pub(crate) writes: Semaphore,
    pub(crate) calls: Arc<CallCounters>,
    /// The version of the server, once it was asked for; shared by the handles made of this one.
    version: Arc<OnceCell<ServerVersion>>,
    served: tokio::sync::Mutex<KindCache>,
    warnings: Mutex<Vec<String>>,
    pub(crate) watches: SharedWatches,
}

#[derive(Default)]
struct KindCache {
    kinds: Option<Arc<ServedKinds>>,
    /// True if discovery was repeated because something was missing; once is enough.
    is_refreshed: bool,
}

impl Cluster {
    pub fn new(client: kube::Client) -> Cluster {
        let (limits, retry) = (RequestLimits::default(), RetryPolicy::default());
        Cluster::from_parts(client, None, limits, retry, Arc::default(), Arc::default())
    }

    fn from_parts(
        client: kube::Client,
        reconnect: Option<ReconnectFn>,
        limits: RequestLimits,
        retry: RetryPolicy,
        calls: Arc<CallCounters>,
        version: Arc<OnceCell<ServerVersion>>,
    ) -> Cluster {
        let namespace = client.default_namespace().to_owned();
        let inner = ClusterInner {
            client: RwLock::new((client, 0)),
            reconnect,
            namespace,
            retry,
            limits,
            reads: Semaphore::new(limits.reads.max(1)),
            writes: Semaphore::new(limits.writes.max(1)),
            calls,
            version,
            served: tokio::sync::Mutex::default(),
            warnings: Mutex::default(),
            watches: SharedWatches::default(),
        };
        Cluster(Arc::new(inner), RequestBounds::default())
    }

    fn rebuild_with(
        &self,
        limits: RequestLimits,
        retry: RetryPolicy,
        reconnect: Option<ReconnectFn>,
    ) -> Cluster {
        let (calls, version) = (self.0.calls.clone(), self.0.version.clone());
        let built = Cluster::from_parts(self.client(), reconnect, limits, retry, calls, version);
        Cluster(built.0, self.1.clone())
    }

    /// The same cluster with other limits.
    pub fn with_limits(self, limits: RequestLimits) -> Cluster {
        self.rebuild_with(limits, self.0.retry, self.0.reconnect.clone())
    }

    /// The same cluster with another retry policy.
    pub fn with_retry(self, retry: RetryPolicy) -> Cluster {
        self.rebuild_with(self.0.limits, retry, self.0.reconnect.clone())
    }

    /// The same cluster with a queue of its own, without bounds: its requests never wait behind those of other
    /// handles.
    pub(crate) fn with_own_queue(&self) -> Cluster {
        self.without_write_gate().without_deadline().rebuild_with(
            self.0.limits,
            self.0.retry,
            self.0.reconnect.clone(),
        )
    }

    /// The same cluster whose writes are sent only while a lock is surely held.
    pub fn with_write_gate(&self, gate: WriteGate) -> Cluster {
        Cluster(self.0.clone(), RequestBounds { gate: Some(gate), ..self.1.clone() })
    }

    /// The same cluster whose writes depend on no lock.
    pub fn without_write_gate(&self) -> Cluster {
        Cluster(self.0.clone(), RequestBounds { gate: None, ..self.1.clone() })
    }

    /// The same cluster whose requests give up at a deadline, or at the one it has if that is sooner.
    pub fn with_deadline(&self, deadline: Deadline) -> Cluster {
        let sooner = self.1.deadline.clone().filter(|own| own.instant() <= deadline.instant());
        Cluster(
            self.0.clone(),
            RequestBounds { deadline: Some(sooner.unwrap_or(deadline)), ..self.1.clone() },
        )
    }

    /// The same cluster whose requests have the time that retries have.
    pub fn without_deadline(&self) -> Cluster {
        Cluster(self.0.clone(), RequestBounds { deadline: None, ..self.1.clone() })
    }

    /// The same cluster whose locks last only so long without renewal. Every run that shares a lock has to agree
    /// on it, so all but tests leave it as it is.
    pub fn with_lease(&self, lease: Duration) -> Cluster {
        Cluster(self.0.clone(), RequestBounds { lease: Some(lease), ..self.1.clone() })
    }

    /// The same cluster, whose releases are kept in a place of their own.
    pub fn with_release_storage(self, releases: ReleasePlace) -> Cluster {
        Cluster(self.0, RequestBounds { releases: Arc::new(releases), ..self.1 })
    }

    pub(crate) fn release_place(&self) -> &ReleasePlace {
        &self.1.releases
    }

    /// The driver of its releases, for engines that are not told one.
    pub fn release_driver(&self) -> StorageDriver {
        self.1.releases.driver
    }

    /// Waits until the lock that writes depend on is surely held; returns false if it was lost.
    pub(crate) async fn holds_lock(&self) -> bool {
        match &self.1.gate {
            Some(gate) => gate.wait_until_held().await,
            None => true,
        }
    }

    /// The deadline of this handle's requests.
    pub fn deadline(&self) -> Option<&Deadline> {
        self.1.deadline.as_ref()
    }

    /// The same cluster, whose errors say whose credentials were refused.
    pub(crate) fn with_login(self, login: Option<LoginOrigin>) -> Cluster {
        Cluster(self.0, RequestBounds { login: login.map(Arc::new), ..self.1 })
    }

    pub(crate) fn with_reconnect(self, reconnect: ReconnectFn) -> Cluster {
        self.rebuild_with(self.0.limits, self.0.retry, Some(reconnect))
    }

    /// The namespace the connection came with.
    pub fn default_namespace(&self) -> &str {
        &self.0.namespace
    }

    /// The client underneath, for what this crate does not offer.
    pub fn client(&self) -> kube::Client {
        self.0.client.read().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    pub(crate) fn client_and_age(&self) -> (kube::Client, u64) {
        self.0.client.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the credentials again, once for all requests that found the client of `age` refused.
    pub(crate) async fn reconnect(&self, age: u64) -> bool {
        let Some(reconnect) = &self.0.reconnect else { return false };
        if self.client_and_age().1 != age {
            return true;
        }
        let Ok(client) = reconnect().await else { return false };
        let mut current = self.0.client.write().unwrap_or_else(PoisonError::into_inner);
        if current.1 == age {
            *current = (client, age + 1);
        }
        true
    }

    /// The number of requests sent so far by this handle and its clones.
    pub fn call_counts(&self) -> CallCounts {
        self.0.calls.snapshot_counts()
    }

    pub(crate) fn record_warning(&self, message: &str) {
        let mut warnings = self.0.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if !warnings.iter().any(|known| known == message) && warnings.len() < 1000 {
            warnings.push(message.to_owned());
        }
    }

    /// The warnings in the server's answers (deprecated versions, unknown fields), each once.
    pub fn server_warnings(&self) -> Vec<String> {
        self.0.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The version of the server; asked for once.
    pub async fn server_version(&self) -> Result<ServerVersion, Error> {
        self.0.version.get_or_try_init(|| self.ask_version()).await.cloned()
    }

    /// Asks the server for its version, which shows that it answers.
    pub async fn ask_version(&self) -> Result<ServerVersion, Error> {
        let action = "ask the server's version";
        let is_stranger = |error: &Error| {
            // An API server says `Status` with everything it refuses.
            error.status.as_ref().is_some_and(|status| status.reason.is_empty())
                && matches!(error.class, ErrorClass::NoKind | ErrorClass::NotFound | ErrorClass::Invalid)
        };
        let answer = self.call_json(ApiCall::get(RequestVerb::Discover, "/version", action)).await;
        let answer = answer.map_err(|error| match is_stranger(&error) {
            true => Error { fault: Some(ConnectionFault::NotKubernetes), ..error },
            false => error,
        })?;
        let version: Option<ServerVersion> = serde_json::from_value(answer).ok();
        version.filter(|version| *version != ServerVersion::default()).ok_or_else(|| {
            let error = Error::new(ErrorClass::Other, action, "the answer holds no version");
            Error { fault: Some(ConnectionFault::NotKubernetes), ..error }
        })
    }

    /// Everything the cluster serves; asked for once.
    pub async fn served_kinds(&self) -> Result<Arc<ServedKinds>, Error> {
        let mut served = self.0.served.lock().await;
        self.load_kinds(&mut served).await
    }

    async fn load_kinds(&self, served: &mut KindCache) -> Result<Arc<ServedKinds>, Error> {
        if let Some(kinds) = &served.kinds {
            return Ok(kinds.clone());
        }
        let kinds = Arc::new(self.discover_kinds().await?);
        served.kinds = Some(kinds.clone());
        Ok(kinds)
    }

    /// Finds a kind as the cluster serves it, or `None`. The first miss asks the server again, later ones do
    /// not: see [`Cluster::invalidate_kinds`].
    pub async fn find_kind(&self, gvk: &Gvk) -> Result<Option<Arc<ServedKind>>, Error> {
        if let Some(kind) = kinds::well_known(gvk) {
            return Ok(Some(kind));
        }
        let mut served = self.0.served.lock().await;
        let was_known = served.kinds.is_some();
        let kinds = self.load_kinds(&mut served).await?;
        if let Some(kind) = kinds.by_gvk(gvk) {
            return Ok(Some(kind.clone()));
        }
        if was_known && !served.is_refreshed {
            served.kinds = None;
            served.is_refreshed = true;
            return Ok(self.load_kinds(&mut served).await?.by_gvk(gvk).cloned());
        }
        Ok(None)
    }

    /// Forgets what the cluster serves; after a definition of new kinds was applied or deleted.
    pub async fn invalidate_kinds(&self) {
        *self.0.served.lock().await = KindCache::default();
    }

    pub(crate) async fn require_kind(&self, gvk: &Gvk, action: &str) -> Result<Arc<ServedKind>, Error> {
        self.find_kind(gvk).await?.ok_or_else(|| {
            let message = format!("the cluster serves no kind {} in {}", gvk.kind, gvk.api_version());
            Error::new(ErrorClass::NoKind, action, message)
        })
    }

    async fn discover_kinds(&self) -> Result<ServedKinds, Error> {
        let (core, groups) =
            futures::join!(self.discovery_document("/api", true), self.discovery_document("/apis", true));
        let (core, groups) = (core?, groups?);
        let (mut all, mut warnings) = (Vec::new(), Vec::new());
        for (root, document) in [("/api", core), ("/apis", groups)] {
            if document["kind"] == "APIGroupDiscoveryList" {
                kinds::read_aggregated(&document, &mut all, &mut warnings);
            } else {
                self.discover_each_group(root, &document, &mut all, &mut warnings).await;
            }
        }
        Ok(ServedKinds::new(all, warnings))
    }

    async fn discovery_document(&self, path: &str, aggregated: bool) -> Result<Value, Error> {
        const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
            application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        let mut call = ApiCall::get(RequestVerb::Discover, path, "ask which kinds the cluster serves");
        if aggregated {
            call.headers.push((ACCEPT, HeaderValue::from_static(AGGREGATED)));
        }
        self.call_json(call).await
    }

    /// The older way: one document for each group and version.
    async fn discover_each_group(
        &self,
        root: &str,
        document: &Value,
        all: &mut Vec<ServedKind>,
        warnings: &mut Vec<String>,
    ) {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let places: Vec<(String, String)> = if root == "/api" {
            let versions = list(&document["versions"]);
            versions.iter().filter_map(|v| Some((String::new(), v.as_str()?.to_owned()))).collect()
        } else {
            let mut places = Vec::new();
            for group in list(&document["groups"]) {
                let name = group["name"].as_str().unwrap_or_default();
                let preferred = group["preferredVersion"]["version"].as_str();
                let mut versions: Vec<String> = list(&group["versions"])
                    .iter()
                    .filter_map(|v| v["version"].as_str().map(str::to_owned))
                    .collect();
                versions.sort_by_key(|version| Some(version.as_str()) != preferred);
                places.extend(versions.into_iter().map(|version| (name.to_owned(), version)));
            }
            places
        };
        let answers = join_all(places.iter().map(|(group, version)| async move {
            let path = if group.is_empty() {
                format!("{root}/{version}")
            } else {
                format!("{root}/{group}/{version}")
            };
            self.discovery_document(&path, false).await
        }))
        .await;
        for ((group, version), answer) in places.iter().zip(answers) {
            match answer {
                Ok(list) => kinds::read_resources(group, version, &list, all),
                Err(e) => warnings.push(format!(
                    "{}: {}",
                    slipway_manifest::object::join_api_version(group, version),
                    e.message
                )),
            }
        }
    }

    /// The pause before the next attempt after a failure.
    pub(crate) fn retry_pause(&self, attempt: u32) -> Duration {
        self.0.retry.pause_after(attempt)
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("namespace", &self.0.namespace).finish_non_exhaustive()
    }
}
