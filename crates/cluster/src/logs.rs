//! Logs of containers: read once or followed through lost connections and restarts.

use slipway_manifest::ObjectRef;
use std::time::Duration;

use futures::StreamExt;
use http_body_util::BodyExt;
use jiff::Timestamp;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::Cluster;
use crate::calls::RequestVerb;
use crate::error::{Error, ErrorClass};
use crate::request::{ApiCall, UrlQuery};

/// Lines longer than this are cut.
const LONGEST_LINE: usize = 64 * 1024;
/// The time without lines after which a connection is made anew.
const SILENCE_LIMIT: Duration = Duration::from_secs(30 * 60);

/// The container whose log is read.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LogSource {
    pub namespace: String,
    pub pod: String,
    pub container: String,
}

/// Options that select lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerLogOptions {
    pub since: Option<Timestamp>,
    /// Only the last so many lines.
    pub tail: Option<u32>,
    /// Of the container before its last restart.
    pub previous: bool,
    /// At most so many bytes.
    pub bytes: Option<u32>,
}

/// One line and when it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerLogLine {
    pub time: Option<Timestamp>,
    pub text: String,
}

/// The position in a stream, so that a new one can continue after it.
#[derive(Default)]
struct StreamPosition {
    time: Option<Timestamp>,
    /// The number of lines with that timestamp that were handed out.
    given: usize,
}

/// Reads the lines written so far.
pub async fn read_logs(
    cluster: &Cluster,
    source: &LogSource,
    options: &ContainerLogOptions,
) -> Result<Vec<ContainerLogLine>, Error> {
    let mut lines = Vec::new();
    let call = log_request(source, options, false);
    read_stream(cluster, &call, &mut StreamPosition::default(), &mut |line| lines.push(line)).await?;
    Ok(lines)
}

/// Follows until the container has ended for good or its pod is gone. Every line is handed out once.
pub async fn follow_logs(
    cluster: &Cluster,
    source: &LogSource,
    options: &ContainerLogOptions,
    take: &mut (dyn FnMut(ContainerLogLine) + Send),
) -> Result<(), Error> {
    follow_logs_until(cluster, source, options, &CancellationToken::new(), Duration::ZERO, take).await
}

/// As [`follow_logs`], but only the lines written when `enough` fires: those are read to their end, in one request if
/// it fires within `patience`.
pub async fn follow_logs_until(
    cluster: &Cluster,
    source: &LogSource,
    options: &ContainerLogOptions,
    enough: &CancellationToken,
    patience: Duration,
    take: &mut (dyn FnMut(ContainerLogLine) + Send),
) -> Result<(), Error> {
    let _ = tokio::time::timeout(patience, enough.cancelled()).await;
    let mut position = StreamPosition::default();
    let mut options = options.clone();
    let mut failures = 0;
    loop {
        let before = (position.time, position.given);
        let followed = log_request(source, &options, true);
        let result = tokio::select! {
            biased;
            () = enough.cancelled() => None,
            result = read_stream(cluster, &followed, &mut position, take) => Some(result),
        };
        let Some(result) = result else {
            // Every line handed out is counted, so the rest begins where the stream was left.
            if position.time.is_some() {
                (options.since, options.tail) = (position.time, None);
            }
            let rest = read_stream(cluster, &log_request(source, &options, false), &mut position, take).await;
            // A container that has not started has no log.
            return rest.or_else(|e| if e.class == ErrorClass::Invalid { Ok(()) } else { Err(e) });
        };
        failures = if (position.time, position.given) == before { failures + 1 } else { 0 };
        match result {
            // A container that has not started, or restarts, is no reason to give up.
            Err(e) if !(e.is_transient() || e.class == ErrorClass::Invalid) => return Err(e),
            Ok(()) | Err(_) => {}
        }
        let at = ObjectRef::core("Pod", Some(&source.namespace), &source.pod);
        match cluster.get(&at).await {
            Ok(None) => return Ok(()),
            Ok(Some(pod)) if has_finished(&pod, &source.container) && result_is_whole(&result) => {
                return Ok(());
            }
            Ok(Some(_)) => {}
            Err(e) if e.is_transient() => {}
            Err(e) => return Err(e),
        }
        (options.since, options.tail) = (position.time.or(options.since), None);
        tokio::select! {
            () = tokio::time::sleep(cluster.retry_pause(failures + 1)) => {}
            () = enough.cancelled() => {}
        }
    }
}

fn result_is_whole(result: &Result<(), Error>) -> bool {
    result.as_ref().is_ok_and(|()| true) || result.as_ref().is_err_and(|e| e.class == ErrorClass::Invalid)
}

/// Returns true if a container has ended and will not start again.
pub(crate) fn has_finished(pod: &Value, container: &str) -> bool {
    if matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) {
        return true;
    }
    let find = |list: &str| {
        pod["status"][list]
            .as_array()
            .into_iter()
            .flatten()
            .find(|status| status["name"] == container)
            .cloned()
    };
    if let Some(status) = find("initContainerStatuses") {
        return status["state"]["terminated"]["exitCode"] == 0;
    }
    let restarts = match pod["spec"]["restartPolicy"].as_str() {
        Some("Never") => false,
        Some("OnFailure") => {
            find("containerStatuses").is_none_or(|status| status["state"]["terminated"]["exitCode"] != 0)
        }
        _ => true,
    };
    !restarts && find("containerStatuses").is_some_and(|status| status["state"]["terminated"].is_object())
}

fn log_request(source: &LogSource, options: &ContainerLogOptions, follow: bool) -> ApiCall {
    let since =
        options.since.map(|since| since.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()).unwrap_or_default();
    let path = UrlQuery::new()
        .with("container", &source.container)
        .with("timestamps", "true")
        .with("follow", if follow { "true" } else { "" })
        .with("sinceTime", &since)
        .with("tailLines", &options.tail.map(|tail| tail.to_string()).unwrap_or_default())
        .with("limitBytes", &options.bytes.map(|bytes| bytes.to_string()).unwrap_or_default())
        .with("previous", if options.previous { "true" } else { "" })
        .append_to(&format!("/api/v1/namespaces/{}/pods/{}/log", source.namespace, source.pod));
    ApiCall::get(RequestVerb::Log, path, format!("read logs of {}/{}", source.pod, source.container))
}

/// Reads one answer to its end, giving out the lines after `position`.
async fn read_stream(
    cluster: &Cluster,
    call: &ApiCall,
    position: &mut StreamPosition,
    take: &mut (dyn FnMut(ContainerLogLine) + Send),
) -> Result<(), Error> {
    let response = cluster.open_stream(call).await?;
    let mut body = response.into_body().into_data_stream();
    let mut pending: Vec<u8> = Vec::new();
    let start = StreamPosition { time: position.time, given: position.given };
    let mut same = 0;
    let mut give = |line: &[u8]| {
        let line = split_timestamp(&String::from_utf8_lossy(&line[..line.len().min(LONGEST_LINE)]));
        if let (Some(time), Some(reached)) = (line.time, start.time) {
            same += usize::from(time == reached);
            if time < reached || (time == reached && same <= start.given) {
                return;
            }
        }
        if line.time.is_some() {
            position.given = if line.time == position.time { position.given + 1 } else { 1 };
            position.time = line.time;
        }
        take(line);
    };
    loop {
        let chunk = match tokio::time::timeout(SILENCE_LIMIT, body.next()).await {
            Ok(Some(Ok(chunk))) => chunk,
            Ok(Some(Err(e))) => return Err(call.call_error(ErrorClass::Transport, e.to_string())),
            Err(_) => return Err(call.call_error(ErrorClass::Timeout, "the stream fell silent")),
            Ok(None) => break,
        };
        let mut rest: &[u8] = &chunk;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            pending.extend_from_slice(&rest[..end]);
            give(&pending);
            pending.clear();
            rest = &rest[end + 1..];
        }
        // The rest of a line that is too long is not kept.
        let room = LONGEST_LINE.saturating_sub(pending.len());
        pending.extend_from_slice(&rest[..rest.len().min(room)]);
    }
    if !pending.is_empty() {
        give(&pending);
    }
    Ok(())
}

/// Takes the time off a line; a line of nothing else is an empty one.
fn split_timestamp(line: &str) -> ContainerLogLine {
    let line = line.strip_suffix('\r').unwrap_or(line);
    let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
    match first.parse() {
        Ok(time) => ContainerLogLine { time: Some(time), text: rest.to_owned() },
        Err(_) => ContainerLogLine { time: None, text: line.to_owned() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lines_lose_their_time() {
        let line = split_timestamp("2026-01-02T03:04:05.123456789Z hello there");
        assert_eq!(line.text, "hello there");
        assert!(line.time.is_some());
        assert_eq!(split_timestamp("2026-01-02T03:04:05Z").text, "");
        assert_eq!(split_timestamp("no time").text, "no time");
    }

    #[test]
    fn containers_end_or_start_again() {
        let pod = |policy: &str, code: i64| {
            json!({"spec": {"restartPolicy": policy}, "status": {"phase": "Running", "containerStatuses": [
                {"name": "c", "state": {"terminated": {"exitCode": code}}}]}})
        };
        for (policy, code, expected) in
            [("Always", 0, false), ("Never", 1, true), ("OnFailure", 1, false), ("OnFailure", 0, true)]
        {
            assert_eq!(has_finished(&pod(policy, code), "c"), expected, "{policy} {code}");
        }
    }
}
