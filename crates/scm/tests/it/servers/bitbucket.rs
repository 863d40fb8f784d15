//! Bitbucket Cloud's API 2.0.

use serde_json::{Value, json};

use super::{not_found, unauthorized};
use crate::model::{Call, Forge, MERGED, Pull, Reply, State, TOKEN, next_page};

fn shown(forge: &Forge, pull: &Pull) -> Value {
    let is_merged = pull.state == State::Merged;
    let side = |branch: &str| {
        let commit = forge.commit_of(branch);
        json!({"branch": {"name": branch}, "commit": {"hash": commit.get(..12)}})
    };
    let people: Vec<Value> = pull
        .reviews
        .iter()
        .map(|(user, state)| {
            let state = match state.as_str() {
                "APPROVED" => json!("approved"),
                "CHANGES_REQUESTED" => json!("changes_requested"),
                _ => Value::Null,
            };
            json!({"user": {"nickname": user}, "approved": state == "approved", "state": state})
        })
        .collect();
    json!({
        "id": pull.number, "links": {"html": {"href": format!("https://example.com/org/app/pull-requests/{}", pull.number)}},
        "state": match pull.state { State::Open => "OPEN", State::Closed => "DECLINED", State::Merged => "MERGED" },
        "title": pull.title, "description": pull.body, "draft": false,
        "source": side(&pull.head), "destination": side(&pull.base),
        "merge_commit": is_merged.then(|| json!({"hash": &MERGED[..12]})),
        "closed_by": is_merged.then(|| json!({"nickname": "reviewer"})),
        "updated_on": "2026-11-17T05:00:00.000000+00:00", "participants": people,
    })
}

/// One page, two at a time; the address of the next is part of it.
fn page(call: &Call, all: &[Value]) -> Reply {
    let number: usize = call.query("page").parse().unwrap_or(1);
    let values: Vec<Value> = all.iter().skip((number - 1) * 2).take(2).cloned().collect();
    let mut body = json!({"values": values, "page": number});
    if all.len() > number * 2 {
        body["next"] = next_page(call, number + 1).as_str().into();
    }
    Reply::new(200, body)
}

pub(crate) fn handle(forge: &mut Forge, call: &Call) -> Option<Reply> {
    if call.header("authorization") != format!("Bearer {TOKEN}") {
        return Some(unauthorized());
    }
    let path: Vec<&str> = call.path.iter().map(String::as_str).collect();
    let ["2.0", "repositories", "org", "app", rest @ ..] = path.as_slice() else { return None };
    match (call.method.as_str(), rest) {
        ("GET", []) => Some(Reply::new(200, json!({"full_name": "org/app"}))),
        ("GET", ["pullrequests"]) => {
            let states: Vec<&str> = call
                .query
                .iter()
                .filter(|(name, _)| name == "state")
                .map(|(_, value)| value.as_str())
                .collect();
            let query = call.query("q");
            let fits = |pull: &&Pull| {
                let wanted = format!(
                    "source.branch.name=\"{}\" AND destination.branch.name=\"{}\"",
                    pull.head, pull.base
                );
                (query == wanted && states.len() == 4)
                    || (query == "state=\"OPEN\"" && pull.state == State::Open)
            };
            let found: Vec<Value> = forge.pulls.iter().filter(fits).map(|pull| shown(forge, pull)).collect();
            Some(page(call, &found))
        }
        ("GET", ["commits"]) => {
            let differs = forge.commit_of(call.query("include")) != forge.commit_of(call.query("exclude"));
            let commits = if differs { vec![json!({"hash": "x"})] } else { Vec::new() };
            Some(page(call, &commits))
        }
        ("POST", ["pullrequests"]) => {
            let [title, body, head, base] =
                ["/title", "/description", "/source/branch/name", "/destination/branch/name"]
                    .map(|name| call.text(name));
            Some(match forge.create(&title, &body, &head, &base) {
                Some(pull) => Reply::new(201, shown(forge, &pull)),
                None => Reply::new(409, json!({"type": "error", "error": {"message": "already exists"}})),
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
        ("PUT", ["pullrequests", number]) => {
            let title = call.text("/title");
            if title.is_empty() {
                return Some(Reply::new(
                    400,
                    json!({"type": "error", "error": {"message": "title required"}}),
                ));
            }
            let pull = forge.pull(number)?;
            pull.title = title;
            if let Some(body) = call.body.get("description") {
                pull.body = body.as_str()?.to_owned();
                let labels = pull.body.lines().find_map(|line| line.strip_prefix("Labels: "));
                if let Some(labels) = labels {
                    pull.labels = labels.split(", ").map(str::to_owned).collect();
                }
            }
            Some(Reply::new(200, json!({})))
        }
        ("POST", ["pullrequests", number, "decline"]) => {
            let pull = forge.pull(number)?;
            if pull.state != State::Open {
                return None;
            }
            pull.state = State::Closed;
            Some(Reply::new(200, json!({})))
        }
        ("POST", ["pullrequests", number, "merge"]) => {
            if !matches!(call.text("/merge_strategy").as_str(), "merge_commit" | "squash" | "fast_forward") {
                return None;
            }
            Some(match forge.merge(number, None) {
                true => Reply::new(200, json!({})),
                false => {
                    Reply::new(409, json!({"type": "error", "error": {"message": "merge checks failed"}}))
                }
            })
        }
        ("GET", ["pullrequests", number, "comments"]) => {
            let show =
                |(id, body): &(u64, String)| json!({"id": id, "content": {"raw": body}, "deleted": false});
            let comments: Vec<Value> = forge.pull(number)?.comments.iter().map(show).collect();
            Some(page(call, &comments))
        }
        ("POST", ["pullrequests", number, "comments"]) => {
            let id = forge.next_id();
            forge.pull(number)?.comments.push((id, call.text("/content/raw")));
            Some(Reply::new(201, json!({"id": id})))
        }
        ("PUT", ["pullrequests", number, "comments", id]) => {
            let comments = &mut forge.pull(number)?.comments;
            comments.iter_mut().find(|(known, _)| known.to_string() == *id)?.1 = call.text("/content/raw");
            Some(Reply::new(200, json!({})))
        }
        ("POST", ["commit", commit, "statuses", "build"]) => {
            let state = call.text("/state");
            let is_known = matches!(state.as_str(), "INPROGRESS" | "SUCCESSFUL" | "FAILED" | "STOPPED");
            if !is_known || call.text("/url").is_empty() || call.text("/key").len() > 40 {
                return None;
            }
            forge.checks.push(((*commit).to_owned(), call.text("/name"), state));
            Some(Reply::new(201, json!({})))
        }
        ("DELETE", ["refs", "branches", parts @ ..]) => Some(match forge.branches.remove(&parts.join("/")) {
            Some(_) => Reply::new(204, Value::Null),
            None => not_found(),
        }),
        _ => None,
    }
}
