//! Gitea's API.

use serde_json::{Value, json};

use super::github::common;
use super::unauthorized;
use crate::model::{Call, Forge, MERGED, Pull, Reply, State, TOKEN, page};

fn shown(forge: &Forge, pull: &Pull) -> Value {
    let is_merged = pull.state == State::Merged;
    json!({
        "number": pull.number, "html_url": format!("https://example.com/org/app/pulls/{}", pull.number),
        "state": if pull.state == State::Open { "open" } else { "closed" },
        "title": pull.title, "body": pull.body, "draft": false, "merged": is_merged,
        "merged_at": is_merged.then_some("2026-11-17T05:00:00Z"),
        "merge_commit_sha": is_merged.then_some(MERGED),
        "merged_by": is_merged.then(|| json!({"login": "reviewer"})),
        "mergeable": !forge.is_blocked,
        "labels": pull.labels.iter().map(|name| json!({"id": 1, "name": name})).collect::<Vec<_>>(),
        "head": {"ref": pull.head, "sha": forge.commit_of(&pull.head)},
        "base": {"ref": pull.base, "sha": forge.commit_of(&pull.base)},
    })
}

pub(crate) fn handle(forge: &mut Forge, call: &Call) -> Option<Reply> {
    if call.header("authorization") != format!("token {TOKEN}") {
        return Some(unauthorized());
    }
    let path: Vec<&str> = call.path.iter().map(String::as_str).collect();
    let ["api", "v1", "repos", "org", "app", rest @ ..] = path.as_slice() else { return None };
    match (call.method.as_str(), rest) {
        ("GET", []) => Some(Reply::new(200, json!({"permissions": {"push": true, "admin": false}}))),
        ("GET", ["pulls"]) => {
            let state = call.query("state");
            let fits = |pull: &&Pull| state == "all" || pull.state == State::Open;
            let found: Vec<Value> = forge.pulls.iter().filter(fits).map(|pull| shown(forge, pull)).collect();
            matches!(state, "all" | "open").then(|| page(call, &found))
        }
        ("GET", ["compare", parts @ ..]) => {
            let range = parts.join("/");
            let (base, head) = range.split_once("...")?;
            let count = u64::from(forge.commit_of(base) != forge.commit_of(head));
            Some(Reply::new(200, json!({"total_commits": count, "commits": []})))
        }
        ("GET", ["labels"]) => {
            let show = |(id, name): (usize, &String)| json!({"id": id, "name": name});
            let labels: Vec<Value> = forge.labels.iter().enumerate().map(show).collect();
            Some(page(call, &labels))
        }
        ("POST", ["labels"]) => {
            let name = call.text("/name");
            if forge.labels.contains(&name) || !call.text("/color").starts_with('#') {
                return None;
            }
            forge.labels.push(name.clone());
            Some(Reply::new(201, json!({"id": forge.labels.len() - 1, "name": name})))
        }
        ("POST", ["pulls", number, "requested_reviewers"]) => {
            let names = |field: &str| serde_json::from_value::<Vec<String>>(call.body[field].clone()).ok();
            let pull = forge.pull(number)?;
            for name in names("reviewers")?.into_iter().chain(names("team_reviewers")?) {
                if !pull.asked.contains(&name) {
                    pull.asked.push(name);
                }
            }
            Some(Reply::new(201, json!({})))
        }
        ("POST", ["issues", number, "labels"]) => {
            let ids: Vec<usize> = serde_json::from_value(call.body["labels"].clone()).ok()?;
            let names: Option<Vec<String>> = ids.iter().map(|id| forge.labels.get(*id).cloned()).collect();
            forge.pull(number)?.labels.extend(names?);
            Some(Reply::new(200, json!([])))
        }
        ("DELETE", ["branches", parts @ ..]) => Some(match forge.branches.remove(&parts.join("/")) {
            Some(_) => Reply::new(204, Value::Null),
            None => Reply::new(404, json!({"message": "The target couldn't be found."})),
        }),
        ("POST", ["pulls", number, "merge"]) => {
            let (expected, method) = (call.text("/head_commit_id"), call.text("/Do"));
            if method == "manually-merged" {
                let is_known = call.text("/MergeCommitID") == MERGED;
                let allows_manual_merge = forge.allows_manual_merge;
                let pull = forge.pull(number)?;
                return Some(match (pull.state, allows_manual_merge && is_known) {
                    (State::Merged, _) => Reply::new(405, json!({"message": "The PR is already merged"})),
                    (State::Open, true) => {
                        pull.state = State::Merged;
                        Reply::new(200, Value::Null)
                    }
                    _ => Reply::new(405, json!({"message": "not an allowed merge style"})),
                });
            }
            if !matches!(method.as_str(), "merge" | "squash" | "rebase") || expected.len() != 40 {
                return None;
            }
            let is_blocked = forge.is_blocked;
            Some(match forge.merge(number, Some(&expected)) {
                true => Reply::new(200, Value::Null),
                false => {
                    Reply::new(if is_blocked { 405 } else { 409 }, json!({"message": "head out of date"}))
                }
            })
        }
        ("GET", ["pulls", number, "reviews"]) => {
            let show = |(user, state): &(String, String)| {
                let word = if state == "CHANGES_REQUESTED" { "REQUEST_CHANGES" } else { state };
                let is_dismissed = state == "DISMISSED";
                json!({"user": {"login": user}, "state": if is_dismissed { "APPROVED" } else { word }, "dismissed": is_dismissed, "stale": false})
            };
            let reviews: Vec<Value> = forge.pull(number)?.reviews.iter().map(show).collect();
            Some(page(call, &reviews))
        }
        ("POST", ["pulls"]) => common(forge, call, rest, shown)
            .map(|reply| if reply.status == 422 { Reply { status: 409, ..reply } } else { reply }),
        _ => common(forge, call, rest, shown),
    }
}
