//! Answers about no resource: discovery, health, version, metrics, OpenAPI.

use http::header::{ACCEPT, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH};
use http::{Method, Response, StatusCode};
use serde_json::json;

use super::service::{HEALTH, RequestAnswer, RequestExchange, header_text};
use crate::api::discovery::AggregatedForm;
use crate::core::Core;
use crate::http::negotiate::{self, NegotiatedForm};
use crate::http::respond::{PrintOptions, Reply, ResponseBody};
use crate::http::route::RequestTarget;
use crate::status::{Result, Status};

/// The checks of a server that is alive, before those of what starts with it.
const LIVE_CHECKS: [&str; 4] = ["ping", "log", "loopback-serving-certificate", ETCD];
/// The checks of a server that is ready, before those of what starts with it, and the one after them.
const READY_CHECKS: [&str; 5] = ["ping", "log", ETCD, "etcd-readiness", "informer-sync"];
const SHUTDOWN: &str = "shutdown";
/// The check of the disk that objects are written to.
const ETCD: &str = "etcd";
/// What starts with a real server; clients look for these names.
const STARTED: [&str; 29] = [
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/max-in-flight-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/peer-endpoint-reconciler-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/storage-readiness",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
];

impl RequestExchange {
    pub(super) fn answer_document(
        self,
        target: RequestTarget,
        printing: &mut PrintOptions,
    ) -> Result<RequestAnswer> {
        let registry = self.core.registry();
        let accept = header_text(&self.headers, &ACCEPT);
        if let RequestTarget::Versions | RequestTarget::Groups = target
            && let Some(form) = AggregatedForm::negotiate(accept)
        {
            let document = registry.aggregated_discovery(target == RequestTarget::Versions, form);
            let response = self.tagged_response(&document, form.content_type());
            return Ok(RequestAnswer::Raw(Box::new(response)));
        }
        let negotiated = negotiate::negotiate_document(accept);
        // Lists of groups and the server of custom resources say the same to whatever they do not know.
        let plain = |form: Result<NegotiatedForm>| form.map_err(|_| negotiate::unsupported_view());
        let reply = match target {
            RequestTarget::Versions | RequestTarget::Groups => {
                if target == RequestTarget::Versions {
                    printing.accept = negotiated?;
                    Reply::value(
                        200,
                        json!({
                            "kind": "APIVersions",
                            "versions": ["v1"],
                            "serverAddressByClientCIDRs": [
                                {"clientCIDR": "0.0.0.0/0", "serverAddress": self.core.options.address.get()},
                            ],
                        }),
                    )
                } else {
                    printing.accept = plain(negotiated)?;
                    Reply::json(200, registry.group_list().body)
                }
            }
            RequestTarget::Group(name) => match registry.group_value(&name) {
                Some(group) => {
                    printing.accept = plain(negotiated)?;
                    Reply::value(200, group)
                }
                None => unknown_path(),
            },
            RequestTarget::Resources { group, version } => match registry.resource_list(&group, &version) {
                Some(list) => {
                    let custom = registry.groups.iter().any(|g| g.name == group && g.custom);
                    printing.accept = if custom { plain(negotiated)? } else { negotiated? };
                    Reply::json(200, list.body)
                }
                None if registry.groups.iter().any(|g| g.name == group && !g.custom) => {
                    return Err(Status::no_such_resource());
                }
                None => unknown_path(),
            },
            RequestTarget::Resource(_) => return Err(Status::no_such_resource()),
            RequestTarget::Other => return self.answer_other(printing),
        };
        Ok(RequestAnswer::Reply(reply))
    }

    /// A document with an entity tag, or 304.
    pub(super) fn tagged_response(
        &self,
        document: &crate::api::discovery::TaggedDocument,
        content_type: &'static str,
    ) -> Response<ResponseBody> {
        let tag = format!("\"{}\"", document.tag);
        let known = header_text(&self.headers, &IF_NONE_MATCH) == tag;
        let body = if known { ResponseBody::empty() } else { ResponseBody::whole(document.body.clone()) };
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            headers.insert(ETAG, tag);
        }
        headers.insert(http::header::VARY, HeaderValue::from_static("Accept"));
        headers.insert(http::header::CACHE_CONTROL, HeaderValue::from_static("public"));
        if known {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        } else {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        }
        response
    }

    /// Says whether the server is alive or ready: a server whose disk refuses writes is alive, not ready.
    pub(super) fn answer_health(&self, refused: Option<crate::store::DurableError>) -> Result<RequestAnswer> {
        let path = &*self.path;
        let Some((kind, check)) = HEALTH.iter().find_map(|kind| Some((*kind, path.strip_prefix(kind)?)))
        else {
            return Ok(RequestAnswer::Reply(unknown_path()));
        };
        if check == "/" {
            return Ok(RequestAnswer::Reply(unknown_path()));
        }
        let check = check.trim_matches('/');
        let (first, last) =
            if kind == "/readyz" { (&READY_CHECKS[..], Some(SHUTDOWN)) } else { (&LIVE_CHECKS[..], None) };
        let checks = || first.iter().chain(&STARTED).copied().chain(last);
        if !check.is_empty() && !checks().any(|known| known == check) {
            return Ok(RequestAnswer::Reply(unknown_path()));
        }
        let excluded: Vec<&str> = self.query.all_values("exclude").collect();
        let mut text = String::new();
        let mut failed = Vec::new();
        for name in checks().filter(|name| check.is_empty() || *name == check) {
            if excluded.contains(&name) {
                text.push_str(&format!("[+]{name} excluded: ok\n"));
            } else if name == ETCD && kind != "/livez" && refused.is_some() {
                failed.push(name);
                text.push_str(&format!("[-]{name} failed: reason withheld\n"));
            } else {
                text.push_str(&format!("[+]{name} ok\n"));
            }
        }
        let verbose = self.query.all_values("verbose").next().is_some();
        let kind = kind.trim_start_matches('/');
        let (code, text) = match (failed.is_empty(), verbose) {
            (true, true) => (200, format!("{text}{kind} check passed\n")),
            (true, false) => (200, "ok".to_owned()),
            (false, _) => (500, format!("{text}{kind} check failed\n")),
        };
        let content = crate::http::respond::ReplyContent::Text(text);
        Ok(RequestAnswer::Reply(Reply { code, content, warnings: vec![], wrote: None }))
    }

    pub(super) fn answer_other(self, printing: &mut PrintOptions) -> Result<RequestAnswer> {
        let path = self.path.trim_end_matches('/');
        if path == "/version" && self.method != Method::GET {
            return Err(Status::method_not_allowed());
        }
        Ok(RequestAnswer::Reply(match path {
            "/version" => {
                let accept = header_text(&self.headers, &ACCEPT);
                let media =
                    |clause: negotiate::AcceptClause<'_>| matches!(clause.media, "application/json" | "*/*");
                if !accept.trim().is_empty() && !negotiate::accept_clauses(accept).any(media) {
                    // The refusal itself comes in any form.
                    printing.accept = negotiate::negotiate_document(accept).unwrap_or(printing.accept);
                    return Err(negotiate::not_acceptable("application/json"));
                }
                printing.pretty = true;
                Reply::value(200, version_info(&self.core.options.version))
            }
            "" => {
                let registry = self.core.registry();
                let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
                for group in registry.groups.iter().filter(|g| !g.name.is_empty()) {
                    paths.push(format!("/apis/{}", group.name));
                    paths.extend(group.versions.iter().map(|v| format!("/apis/{}/{v}", group.name)));
                }
                for kind in HEALTH {
                    let checks = if kind == "/readyz" { &READY_CHECKS[..] } else { &LIVE_CHECKS };
                    paths.push(kind.to_owned());
                    paths.extend(checks.iter().chain(&STARTED).map(|check| format!("{kind}/{check}")));
                }
                for path in [
                    "/.well-known/openid-configuration",
                    "/apis/",
                    "/metrics",
                    "/metrics/slis",
                    "/openapi/v2",
                    "/openapi/v3",
                    "/openapi/v3/",
                    "/readyz/shutdown",
                    "/version",
                ] {
                    paths.push(path.to_owned());
                }
                paths.sort();
                printing.pretty = true;
                Reply::value(200, json!({"paths": paths}))
            }
            "/metrics" => metrics_reply(&self.core),
            "/metrics/slis" => health_metrics_reply(),
            "/.well-known/openid-configuration" => Reply::value(
                200,
                json!({
                    "issuer": "https://kubernetes.default.svc.cluster.local",
                    "jwks_uri": format!("https://{}/openid/v1/jwks", self.core.options.address.get()),
                    "response_types_supported": ["id_token"],
                    "subject_types_supported": ["public"],
                    "id_token_signing_alg_values_supported": ["ES256"],
                }),
            ),
            _ if path.starts_with("/openapi/") => {
                let missing =
                    || if path.starts_with("/openapi/v3/") { empty_not_found() } else { unknown_path() };
                return crate::api::openapi::answer_path(&self.core, path, &self.query, &self.headers).map(
                    |r| {
                        r.map_or_else(|| RequestAnswer::Reply(missing()), |r| RequestAnswer::Raw(Box::new(r)))
                    },
                );
            }
            _ => unknown_path(),
        }))
    }
}

/// Returns the metrics in Prometheus' format.
fn metrics_reply(core: &Core) -> Reply {
    let mut text = String::from(
        "# HELP apiserver_storage_objects [STABLE] Number of stored objects at the time of last check split by kind.\n\
         # TYPE apiserver_storage_objects gauge\n",
    );
    for table in core.store.table_names() {
        text.push_str(&format!(
            "apiserver_storage_objects{{resource=\"{table}\"}} {}\n",
            core.store.count_objects(&table)
        ));
    }
    text.push_str(&format!(
        "# HELP kubernetes_build_info [ALPHA] A metric with a constant '1' value labeled by the version.\n\
         # TYPE kubernetes_build_info gauge\n\
         kubernetes_build_info{{git_version=\"v{}\"}} 1\n",
        core.options.version
    ));
    Reply {
        code: 200,
        content: crate::http::respond::ReplyContent::Text(text),
        warnings: vec![],
        wrote: None,
    }
}

/// Returns the results of the health checks in Prometheus' format.
fn health_metrics_reply() -> Reply {
    let mut text = String::from(
        "# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.\n\
         # TYPE kubernetes_healthcheck gauge\n",
    );
    for (kind, first) in [("healthz", &LIVE_CHECKS[..]), ("livez", &LIVE_CHECKS), ("readyz", &READY_CHECKS)] {
        for name in first.iter().chain(&STARTED) {
            text.push_str(&format!("kubernetes_healthcheck{{name=\"{name}\",type=\"{kind}\"}} 1\n"));
        }
    }
    let content = crate::http::respond::ReplyContent::Text(text);
    Reply { code: 200, content, warnings: vec![], wrote: None }
}

/// The answer of an OpenAPI path that does not exist: an empty body.
fn empty_not_found() -> Reply {
    Reply {
        code: 404,
        content: crate::http::respond::ReplyContent::Stream { content_type: "", body: ResponseBody::empty() },
        warnings: vec![],
        wrote: None,
    }
}

/// The answer of an unknown path.
pub(crate) fn unknown_path() -> Reply {
    Reply {
        code: 404,
        content: crate::http::respond::ReplyContent::Text("404 page not found\n".into()),
        warnings: vec![],
        wrote: None,
    }
}

fn version_info(version: &str) -> serde_json::Value {
    let mut parts = version.split('.');
    let major = parts.next().unwrap_or("1");
    let minor = parts.next().unwrap_or("0");
    let before = minor.parse::<u32>().map_or_else(|_| minor.to_owned(), |m| m.saturating_sub(1).to_string());
    json!({
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": before,
        "gitVersion": format!("v{version}"),
        "gitCommit": "0000000000000000000000000000000000000000",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "go1.27.3",
        "compiler": "gc",
        "platform": "linux/amd64",
    })
}
