//! GitLab's API v4.

use serde_json::{Value, json};

use super::{not_found, unauthorized};
use crate::model::{Call, Forge, MERGED, Pull, Reply, State, TOKEN, page};

fn shown(forge: &Forge, pull: &Pull) -> Value {
    let is_merged = pull.state == State::Merged;
    json!({
        "iid": pull.number, "web_url": format!("https://example.com/org/app/-/merge_requests/{}", pull.number),
        "state": match pull.state { State::Open => "opened", State::Closed => "closed", State::Merged => "merged" },
        "title": pull.title, "description": pull.body, "draft": false,
        "source_branch": pull.head, "target_branch": pull.base, "sha": forge.commit_of(&pull.head),
        "merge_commit_sha": is_merged.then_some(MERGED), "squash_commit_sha": null,
        "merged_at": is_merged.then_some("2026-11-17T05:00:00.000Z"),
        "merge_user": is_merged.then(|| json!({"username": "reviewer"})),
        "detailed_merge_status": if forge.is_blocked { "ci_still_running" } else { "mergeable" },
        "reviewers": pull.asked.iter().map(|name| json!({"id": if name == "alice" { 7 } else { 8 }, "username": name}))
            .collect::<Vec<_>>(),
        "labels": pull.labels, "diff_refs": {"base_sha": forge.commit_of(&pull.base)},
    })
}

pub(crate) fn handle(forge: &mut Forge, call: &Call) -> Option<Reply> {
    if call.header("private-token") != TOKEN {
        return Some(unauthorized());
    }
    let path: Vec<&str> = call.path.iter().map(String::as_str).collect();
    let ["api", "v4", rest @ ..] = path.as_slice() else { return None };
    if rest == ["personal_access_tokens", "self"] {
        return Some(Reply::new(200, json!({"scopes": ["api"]})));
    }
    if let ["users"] = rest {
        let id = match call.query("username") {
            "alice" => 7,
            "bob" => 8,
            _ => return Some(Reply::new(200, json!([]))),
        };
        return Some(Reply::new(200, json!([{"id": id, "username": call.query("username")}])));
    }
    // The project's path is one segment.
    let ["projects", "org/group/app", rest @ ..] = rest else { return None };
    match (call.method.as_str(), rest) {
        ("GET", []) => Some(Reply::new(
            200,
            json!({"permissions": {"project_access": null, "group_access": {"access_level": 40}}}),
        )),
        ("GET", ["merge_requests"]) => {
            let fits = |pull: &&Pull| match call.query("state") {
                "all" => pull.head == call.query("source_branch") && pull.base == call.query("target_branch"),
                _ => pull.state == State::Open && pull.labels.contains(&call.query("labels").to_owned()),
            };
            let found: Vec<Value> = forge.pulls.iter().filter(fits).map(|pull| shown(forge, pull)).collect();
            matches!(call.query("state"), "all" | "opened").then(|| page(call, &found))
        }
        ("GET", ["repository", "compare"]) => {
            let differs = forge.commit_of(call.query("from")) != forge.commit_of(call.query("to"));
            let commits = if differs { json!([{"id": "x"}]) } else { json!([]) };
            Some(Reply::new(200, json!({"commits": commits})))
        }
        ("POST", ["merge_requests"]) => {
            let [title, body, head, base] =
                ["/title", "/description", "/source_branch", "/target_branch"].map(|name| call.text(name));
            if title.is_empty() {
                return None;
            }
            Some(match forge.create(&title, &body, &head, &base) {
                Some(pull) => Reply::new(201, shown(forge, &pull)),
                None => Reply::new(409, json!({"message": ["Another open merge request already exists"]})),
            })
        }
        ("GET", ["merge_requests", number]) => {
            if forge.hidden > 0 {
                forge.hidden -= 1;
                return Some(not_found());
            }
            let pull = forge.pull(number).cloned();
            Some(pull.map_or_else(not_found, |pull| Reply::new(200, shown(forge, &pull))))
        }
        ("PUT", ["merge_requests", number]) => {
            if call.body.get("labels").is_some() {
                return None;
            }
            let pull = forge.pull(number)?;
            match call.text("/state_event").as_str() {
                "close" => pull.state = State::Closed,
                "reopen" => pull.state = State::Open,
                "" => {}
                _ => return None,
            }
            if let Some(title) = call.body.get("title") {
                pull.title = title.as_str()?.to_owned();
            }
            if let Some(body) = call.body.get("description") {
                pull.body = body.as_str()?.to_owned();
            }
            if let Some(labels) = call.body.get("add_labels") {
                pull.labels.extend(labels.as_str()?.split(',').map(str::to_owned));
            }
            if let Some(ids) = call.body.get("reviewer_ids") {
                let name = |id: &Value| if *id == json!(7) { "alice".to_owned() } else { "bob".to_owned() };
                pull.asked = ids.as_array()?.iter().map(name).collect();
            }
            let pull = pull.clone();
            Some(Reply::new(200, shown(forge, &pull)))
        }
        ("PUT", ["merge_requests", number, "merge"]) => {
            let is_blocked = forge.is_blocked;
            Some(match forge.merge(number, Some(&call.text("/sha"))) {
                true => Reply::new(200, json!({})),
                false => {
                    Reply::new(if is_blocked { 405 } else { 409 }, json!({"message": "SHA does not match"}))
                }
            })
        }
        ("GET", ["merge_requests", number, "notes"]) => {
            let show = |(id, body): &(u64, String)| json!({"id": id, "body": body});
            let notes: Vec<Value> = forge.pull(number)?.comments.iter().map(show).collect();
            Some(page(call, &notes))
        }
        ("POST", ["merge_requests", number, "notes"]) => {
            let id = forge.next_id();
            forge.pull(number)?.comments.push((id, call.text("/body")));
            Some(Reply::new(201, json!({"id": id})))
        }
        ("PUT", ["merge_requests", number, "notes", id]) => {
            let comments = &mut forge.pull(number)?.comments;
            comments.iter_mut().find(|(known, _)| known.to_string() == *id)?.1 = call.text("/body");
            Some(Reply::new(200, json!({})))
        }
        ("GET", ["merge_requests", number, "approvals"]) => {
            let reviews = &forge.pull(number)?.reviews;
            let approved = reviews.iter().filter(|(_, state)| state == "APPROVED");
            let approved: Vec<Value> =
                approved.map(|(user, _)| json!({"user": {"username": user}})).collect();
            Some(Reply::new(200, json!({"approved_by": approved})))
        }
        ("POST", ["statuses", commit]) => {
            let state = call.text("/state");
            if !matches!(state.as_str(), "pending" | "running" | "success" | "failed" | "canceled") {
                return None;
            }
            forge.checks.push(((*commit).to_owned(), call.text("/name"), state));
            Some(Reply::new(201, json!({})))
        }
        ("DELETE", ["repository", "branches", branch]) => Some(match forge.branches.remove(*branch) {
            Some(_) => Reply::new(204, Value::Null),
            None => not_found(),
        }),
        _ => None,
    }
}
