//! Azure DevOps' Git API 7.1.

use base64::Engine as _;
use serde_json::{Value, json};

use super::{not_found, unauthorized};
use crate::model::{Call, Forge, MERGED, Pull, Reply, State, TOKEN};

fn shown(forge: &Forge, pull: &Pull) -> Value {
    let is_merged = pull.state == State::Merged;
    let people: Vec<Value> = pull
        .reviews
        .iter()
        .map(|(user, state)| {
            let vote = match state.as_str() {
                "APPROVED" => 10,
                "CHANGES_REQUESTED" => -10,
                _ => 0,
            };
            json!({"uniqueName": user, "displayName": "Somebody", "vote": vote})
        })
        .chain(pull.asked.iter().map(|id| json!({"id": id, "displayName": id, "vote": 0})))
        .collect();
    json!({
        "pullRequestId": pull.number,
        "status": match pull.state { State::Open => "active", State::Closed => "abandoned", State::Merged => "completed" },
        "title": pull.title, "description": pull.body, "isDraft": false,
        "sourceRefName": format!("refs/heads/{}", pull.head), "targetRefName": format!("refs/heads/{}", pull.base),
        "lastMergeSourceCommit": {"commitId": forge.commit_of(&pull.head)},
        "lastMergeTargetCommit": {"commitId": forge.commit_of(&pull.base)},
        "lastMergeCommit": {"commitId": MERGED},
        "mergeStatus": if forge.is_blocked { "rejectedByPolicy" } else { "succeeded" },
        "closedDate": is_merged.then_some("2026-11-17T05:00:00.1234567Z"),
        "closedBy": is_merged.then(|| json!({"uniqueName": "reviewer"})),
        "reviewers": people,
        "labels": pull.labels.iter().map(|name| json!({"name": name})).collect::<Vec<_>>(),
    })
}

/// The part of a list that `$top` and `$skip` ask for.
fn page(call: &Call, all: &[Value]) -> Reply {
    let number = |name: &str, usual: usize| call.query(name).parse().unwrap_or(usual);
    let items: Vec<&Value> = all.iter().skip(number("$skip", 0)).take(number("$top", 1000)).collect();
    Reply::new(200, json!({"count": items.len(), "value": items}))
}

pub(crate) fn handle(forge: &mut Forge, call: &Call) -> Option<Reply> {
    let login = base64::engine::general_purpose::STANDARD.encode(format!(":{TOKEN}"));
    if call.header("authorization") != format!("Basic {login}") {
        return Some(unauthorized());
    }
    if call.query("api-version") != "7.1" {
        return None;
    }
    let path: Vec<&str> = call.path.iter().map(String::as_str).collect();
    let ["org", "my project", "_apis", "git", "repositories", "app", rest @ ..] = path.as_slice() else {
        return None;
    };
    match (call.method.as_str(), rest) {
        ("GET", []) => Some(Reply::new(200, json!({"id": "x"}))),
        ("GET", ["pullrequests"]) => {
            let fits = |pull: &&Pull| match call.query("searchCriteria.status") {
                "all" => {
                    call.query("searchCriteria.sourceRefName") == format!("refs/heads/{}", pull.head)
                        && call.query("searchCriteria.targetRefName") == format!("refs/heads/{}", pull.base)
                }
                _ => pull.state == State::Open,
            };
            let found: Vec<Value> = forge.pulls.iter().filter(fits).map(|pull| shown(forge, pull)).collect();
            Some(page(call, &found))
        }
        ("GET", ["diffs", "commits"]) => {
            let (base, head) = (call.query("baseVersion"), call.query("targetVersion"));
            let ahead = u64::from(forge.commit_of(base) != forge.commit_of(head));
            Some(Reply::new(200, json!({"aheadCount": ahead, "behindCount": 0})))
        }
        ("POST", ["pullrequests"]) => {
            let [title, body, head, base] =
                ["/title", "/description", "/sourceRefName", "/targetRefName"].map(|name| call.text(name));
            let (head, base) = (head.strip_prefix("refs/heads/")?, base.strip_prefix("refs/heads/")?);
            if body.encode_utf16().count() > 4000 {
                return None;
            }
            Some(match forge.create(&title, &body, head, base) {
                Some(pull) => Reply::new(201, shown(forge, &pull)),
                None => Reply::new(409, json!({"message": "TF401179: An active pull request exists"})),
            })
        }
        ("GET", ["pullrequests", number]) => {
            if forge.hidden > 0 {
                forge.hidden -= 1;
                return Some(not_found());
            }
            let pull = forge.pull(number).cloned();
            Some(pull.map_or_else(not_found, |pull| Reply::new(200, shown(forge, &pull))))
        }
        ("PATCH", ["pullrequests", number]) => {
            let pull = forge.pull(number)?;
            match call.body.get("status").and_then(Value::as_str) {
                Some("abandoned") => pull.state = State::Closed,
                Some("active") => pull.state = State::Open,
                Some("completed") => {
                    let expected = call.text("/lastMergeSourceCommit/commitId");
                    let method = call.text("/completionOptions/mergeStrategy");
                    if !matches!(method.as_str(), "noFastForward" | "squash" | "rebase") {
                        return None;
                    }
                    if !forge.merge(number, Some(&expected)) {
                        return Some(Reply::new(409, json!({"message": "TF401192: stale"})));
                    }
                }
                Some(_) => return None,
                None => {
                    pull.title = call.text("/title");
                    pull.body = call.text("/description");
                }
            }
            Some(Reply::new(200, json!({})))
        }
        ("GET", ["pullrequests", number, "threads"]) => {
            let show =
                |(id, body): &(u64, String)| json!({"id": id, "comments": [{"id": 1, "content": body}]});
            let system = json!({"id": 0, "comments": [{"id": 1}]});
            let threads = forge.pull(number)?.comments.iter().map(show);
            Some(page(call, &[system].into_iter().chain(threads).collect::<Vec<_>>()))
        }
        ("POST", ["pullrequests", number, "threads"]) => {
            let id = forge.next_id();
            forge.pull(number)?.comments.push((id, call.text("/comments/0/content")));
            Some(Reply::new(200, json!({"id": id})))
        }
        ("PATCH", ["pullrequests", number, "threads", id, "comments", "1"]) => {
            let comments = &mut forge.pull(number)?.comments;
            comments.iter_mut().find(|(known, _)| known.to_string() == *id)?.1 = call.text("/content");
            Some(Reply::new(200, json!({})))
        }
        ("PUT", ["pullrequests", number, "reviewers", id]) => {
            let pull = forge.pull(number)?;
            // Nobody is asked twice: that would take their vote away.
            if pull.asked.iter().any(|known| known == id) || call.body["vote"] != 0 {
                return None;
            }
            pull.asked.push((*id).to_owned());
            Some(Reply::new(200, json!({})))
        }
        ("POST", ["pullrequests", number, "labels"]) => {
            let name = call.text("/name");
            let pull = forge.pull(number)?;
            if !pull.labels.contains(&name) {
                pull.labels.push(name);
            }
            Some(Reply::new(200, json!({})))
        }
        ("POST", ["commits", commit, "statuses"]) => {
            let state = call.text("/state");
            if !matches!(state.as_str(), "pending" | "succeeded" | "failed" | "error") {
                return None;
            }
            let context = format!("{}/{}", call.text("/context/genre"), call.text("/context/name"));
            forge.checks.push(((*commit).to_owned(), context, state));
            Some(Reply::new(201, json!({})))
        }
        ("GET", ["refs"]) => {
            let filter = format!("refs/{}", call.query("filter"));
            let show = |(name, commit): (&String, &String)| json!({"name": format!("refs/heads/{name}"), "objectId": commit});
            let refs: Vec<Value> = forge.branches.iter().map(show).collect();
            let fits = |one: &&Value| one["name"].as_str().is_some_and(|name| name.starts_with(&filter));
            Some(page(call, &refs.iter().filter(fits).cloned().collect::<Vec<_>>()))
        }
        ("POST", ["refs"]) => {
            let change = &call.body[0];
            let name = change["name"].as_str()?.strip_prefix("refs/heads/")?.to_owned();
            let is_delete = change["newObjectId"].as_str()?.chars().all(|digit| digit == '0');
            if !is_delete || Some(&forge.commit_of(&name)[..]) != change["oldObjectId"].as_str() {
                return None;
            }
            forge.branches.remove(&name);
            Some(Reply::new(200, json!({"value": [{"success": true}]})))
        }
        _ => None,
    }
}
