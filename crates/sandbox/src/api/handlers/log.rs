//! `pods/log`: what the simulated containers said.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use serde_json::Value;

use crate::http::negotiate::ResponseView;
use crate::http::respond::{BoxError, Reply, ReplyContent, ResponseBody};
use crate::status::{NamedResource, Result, Status, StatusCause};

use super::ResourceRequest;

pub(super) fn read_log(request: &ResourceRequest) -> Result<Reply> {
    if request.accept.view == ResponseView::Table && request.accept.only {
        return Err(crate::http::negotiate::unsupported_view());
    }
    let object = request
        .core
        .store
        .get("pods", &request.object_key())
        .ok_or_else(|| Status::not_found(request.served.resource_name(), &request.path.name))?;
    let pod = object.value();
    let name = &request.path.name;
    let container = choose_container(&pod, name, request.query.non_empty("container"))?;
    check_options(request)?;
    if pod["spec"]["nodeName"].as_str().unwrap_or("").is_empty() {
        return Ok(Reply {
            code: 204,
            content: ReplyContent::Stream { content_type: "", body: ResponseBody::empty() },
            warnings: vec![],
            wrote: None,
        });
    }
    let previous = request.query.bool_value("previous") == Some(true);
    let status = ["containerStatuses", "initContainerStatuses"]
        .iter()
        .flat_map(|list| pod["status"][*list].as_array().into_iter().flatten())
        .find(|s| s["name"] == container.as_str())
        .cloned()
        .unwrap_or_default();
    if previous && status["restartCount"].as_i64().unwrap_or(0) == 0 {
        return Err(Status::bad_request(format!(
            "previous terminated container \"{container}\" in pod \"{name}\" not found"
        )));
    }
    if let Some(reason) = status["state"]["waiting"]["reason"].as_str()
        && status["lastState"]["terminated"].is_null()
    {
        let detail = match reason {
            "ErrImagePull" | "ImagePullBackOff" => "trying and failing to pull image",
            other => other,
        };
        return Err(Status::bad_request(format!(
            "container \"{container}\" in pod \"{name}\" is waiting to start: {detail}"
        )));
    }
    let text = log_text(request, &pod, &container)?;
    let follow = request.query.bool_value("follow") == Some(true);
    let running = |pod: &Value| !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if !follow || !running(&pod) {
        return Ok(Reply {
            code: 200,
            content: ReplyContent::Stream { content_type: "text/plain", body: ResponseBody::whole(text) },
            warnings: vec![],
            wrote: None,
        });
    }
    // The stream stays open as long as the pod runs.
    let (core, key, uid) = (request.core.clone(), request.object_key(), object.uid.clone());
    let head = futures::stream::once(async move { Ok::<Bytes, BoxError>(text.into()) });
    let tail = futures::stream::unfold((core, key, uid), move |(core, key, uid)| async move {
        loop {
            let alive =
                core.store.get("pods", &key).filter(|o| o.uid == uid).is_some_and(|o| running(&o.value()));
            if !alive {
                return None::<(Result<Bytes, BoxError>, _)>;
            }
            let mut changes = core.store.subscribe_changes("pods");
            tokio::select! {
                _ = changes.changed() => {}
                () = tokio::time::sleep(Duration::from_secs(5)) => {}
            }
        }
    });
    type Result<T, E> = std::result::Result<T, E>;
    Ok(Reply {
        code: 200,
        content: ReplyContent::Stream {
            content_type: "text/plain",
            body: ResponseBody::stream(head.chain(tail)),
        },
        warnings: vec![],
        wrote: None,
    })
}

fn check_options(request: &ResourceRequest) -> Result<()> {
    let query = &request.query;
    let mut causes = Vec::new();
    if let Some(tail) = query.int_value("tailLines")?.filter(|n| *n < 0) {
        causes.push(StatusCause::invalid("tailLines", &tail.into(), "must be greater than or equal to 0"));
    }
    if let Some(limit) = query.int_value("limitBytes")?.filter(|n| *n < 1) {
        causes.push(StatusCause::invalid("limitBytes", &limit.into(), "must be greater than 0"));
    }
    match (query.int_value("sinceSeconds")?, query.non_empty("sinceTime")) {
        (Some(_), Some(_)) => causes.push(StatusCause::forbidden(
            "[]",
            "at most one of `sinceTime` or `sinceSeconds` may be specified",
        )),
        (Some(since), None) if since < 1 => {
            causes.push(StatusCause::invalid("sinceSeconds", &since.into(), "must be greater than 0"));
        }
        _ => {}
    }
    if causes.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(NamedResource { group: "", what: "PodLogOptions" }, &request.path.name, causes))
}

fn choose_container(pod: &Value, name: &str, asked: Option<&str>) -> Result<String> {
    let names = |list: &str| -> Vec<String> {
        pod["spec"][list]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|c| c["name"].as_str().map(str::to_owned))
            .collect()
    };
    let (containers, init) = (names("containers"), names("initContainers"));
    match asked {
        Some(asked) if containers.iter().chain(&init).any(|c| c == asked) => Ok(asked.to_owned()),
        Some(asked) => Err(Status::bad_request(format!("container {asked} is not valid for pod {name}"))),
        None => {
            let annotated =
                slipway_manifest::object::annotation(pod, "kubectl.kubernetes.io/default-container");
            if let Some(annotated) = annotated.filter(|a| containers.iter().any(|c| c == a)) {
                return Ok(annotated.to_owned());
            }
            match containers.as_slice() {
                [only] => Ok(only.clone()),
                _ => {
                    let mut message = format!(
                        "a container name must be specified for pod {name}, choose one of: [{}]",
                        containers.join(" ")
                    );
                    if !init.is_empty() {
                        message.push_str(&format!(" or one of the init containers: [{}]", init.join(" ")));
                    }
                    Err(Status::bad_request(message))
                }
            }
        }
    }
}

fn log_text(request: &ResourceRequest, pod: &Value, container: &str) -> Result<Vec<u8>> {
    let query = &request.query;
    let said = slipway_manifest::object::annotation(pod, "sim/logs").map_or_else(
        || format!("log of {}/{}/{container}\n", request.path.namespace, request.path.name),
        |text| if text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") },
    );
    let mut lines: Vec<&str> = said.lines().collect();
    if let Some(tail) = query.int_value("tailLines")? {
        let keep = usize::try_from(tail).unwrap_or(0).min(lines.len());
        lines = lines.split_off(lines.len() - keep);
    }
    let stamps = query.bool_value("timestamps") == Some(true);
    let started = pod["status"]["startTime"].as_str().unwrap_or("1970-01-01T00:00:00Z");
    let stamp = started.trim_end_matches('Z');
    let mut out = String::new();
    for line in lines {
        if stamps {
            out.push_str(&format!("{stamp}.000000000Z "));
        }
        out.push_str(line);
        out.push('\n');
    }
    let mut out = out.into_bytes();
    if let Some(limit) = query.int_value("limitBytes")?.and_then(|l| usize::try_from(l).ok()) {
        out.truncate(limit);
    }
    Ok(out)
}
