//! GitHub's REST API, and Gitea's where they are the same.

use serde_json::{Value, json};

use super::{not_found, unauthorized};
use crate::model::{Call, Forge, MERGED, Pull, Reply, State, TOKEN, page};

pub(crate) fn shown(forge: &Forge, pull: &Pull) -> Value {
    let is_merged = pull.state == State::Merged;
    json!({
        "number": pull.number, "html_url": format!("https://example.com/org/app/pull/{}", pull.number),
        "state": if pull.state == State::Open { "open" } else { "closed" },
        "title": pull.title, "body": pull.body, "draft": false, "merged": is_merged,
        "merged_at": is_merged.then_some("2026-11-17T05:00:00Z"),
        "merge_commit_sha": if is_merged { json!(MERGED) } else { json!("4".repeat(40)) },
        "merged_by": is_merged.then(|| json!({"login": "reviewer"})),
        "mergeable": !forge.is_blocked,
        "labels": pull.labels.iter().map(|name| json!({"id": 1, "name": name})).collect::<Vec<_>>(),
        "head": {"ref": pull.head, "sha": forge.commit_of(&pull.head)},
        "base": {"ref": pull.base, "sha": forge.commit_of(&pull.base)},
    })
}

pub(crate) fn handle(forge: &mut Forge, call: &Call) -> Option<Reply> {
    if call.header("accept") != "application/vnd.github+json"
        || call.header("x-github-api-version") != "2022-11-28"
        || call.header("user-agent").is_empty()
    {
        return None;
    }
    if call.header("authorization") != format!("Bearer {TOKEN}") {
        return Some(unauthorized());
    }
    let path: Vec<&str> = call.path.iter().map(String::as_str).collect();
    let ["api", "v3", "repos", "org", "app", rest @ ..] = path.as_slice() else { return None };
    match (call.method.as_str(), rest) {
        ("GET", []) => Some(
            Reply::new(200, json!({"permissions": {"push": true}}))
                .header("x-oauth-scopes", "repo, workflow"),
        ),
        ("GET", ["pulls"]) => {
            let head = call.query("head").strip_prefix("org:")?;
            let fits = |pull: &&Pull| pull.head == head && pull.base == call.query("base");
            let found: Vec<Value> = forge.pulls.iter().filter(fits).map(|pull| shown(forge, pull)).collect();
            (call.query("state") == "all").then(|| page(call, &found))
        }
        ("GET", ["compare", range]) => {
            let (base, head) = range.split_once("...")?;
            let ahead = u64::from(forge.commit_of(base) != forge.commit_of(head));
            Some(Reply::new(200, json!({"ahead_by": ahead})))
        }
        ("GET", ["issues"]) => {
            let has = |pull: &&Pull| {
                pull.state == State::Open && pull.labels.contains(&call.query("labels").to_owned())
            };
            let found: Vec<Value> = forge
                .pulls
                .iter()
                .filter(has)
                .map(|pull| json!({"number": pull.number, "pull_request": {}}))
                .chain([json!({"number": 999})])
                .collect();
            (call.query("state") == "open").then(|| page(call, &found))
        }
        ("POST", ["labels"]) => {
            let name = call.text("/name");
            if forge.labels.contains(&name) {
                return Some(Reply::new(422, json!({"message": "Validation Failed"})));
            }
            forge.labels.push(name);
            (call.text("/color").len() == 6).then(|| Reply::new(201, json!({})))
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
            let names: Vec<String> = serde_json::from_value(call.body["labels"].clone()).ok()?;
            if names.iter().any(|name| !forge.labels.contains(name)) {
                return None;
            }
            forge.pull(number)?.labels.extend(names);
            Some(Reply::new(200, json!([])))
        }
        ("DELETE", ["git", "refs", "heads", parts @ ..]) => {
            Some(match forge.branches.remove(&parts.join("/")) {
                Some(_) => Reply::new(204, Value::Null),
                None => Reply::new(422, json!({"message": "Reference does not exist"})),
            })
        }
        ("PUT", ["pulls", number, "merge"]) => {
            let (expected, method) = (call.text("/sha"), call.text("/merge_method"));
            if !matches!(method.as_str(), "merge" | "squash" | "rebase") || expected.len() != 40 {
                return None;
            }
            let is_blocked = forge.is_blocked;
            Some(match forge.merge(number, Some(&expected)) {
                true => Reply::new(200, json!({"merged": true, "sha": MERGED})),
                false => Reply::new(
                    if is_blocked { 405 } else { 409 },
                    json!({"message": "Head branch was modified"}),
                ),
            })
        }
        ("GET", ["pulls", number, "reviews"]) => {
            let show = |(user, state): &(String, String)| json!({"user": {"login": user}, "state": state});
            let reviews: Vec<Value> = forge.pull(number)?.reviews.iter().map(show).collect();
            Some(page(call, &reviews))
        }
        _ => common(forge, call, rest, shown),
    }
}

/// Calls that Gitea has taken over.
pub(crate) fn common(
    forge: &mut Forge,
    call: &Call,
    rest: &[&str],
    shown: fn(&Forge, &Pull) -> Value,
) -> Option<Reply> {
    match (call.method.as_str(), rest) {
        ("POST", ["pulls"]) => {
            let [title, body, head, base] = ["/title", "/body", "/head", "/base"].map(|name| call.text(name));
            if title.is_empty() || body.is_empty() {
                return None;
            }
            Some(match forge.create(&title, &body, &head, &base) {
                Some(pull) => Reply::new(201, shown(forge, &pull)),
                None => Reply::new(422, json!({"message": "Validation Failed"})),
            })
        }
        ("GET", ["pulls", number]) => {
            if forge.hidden > 0 {
                forge.hidden -= 1;
                return Some(not_found());
            }
            let pull = forge.pull(number).cloned();
            Some(pull.map_or_else(not_found, |pull| Reply::new(200, shown(forge, &pull))))
        }
        ("PATCH", ["pulls", number]) => {
            let state = call.body.get("state").and_then(Value::as_str);
            let pull = forge.pull(number)?;
            match state {
                Some("closed") => pull.state = State::Closed,
                Some("open") => pull.state = State::Open,
                None => {
                    pull.title = call.text("/title");
                    pull.body = call.text("/body");
                }
                Some(_) => return None,
            }
            if let Some(body) = call.body.get("body").and_then(Value::as_str) {
                pull.body = body.to_owned();
            }
            let pull = pull.clone();
            Some(Reply::new(200, shown(forge, &pull)))
        }
        ("GET", ["issues", number, "comments"]) => {
            let show = |(id, body): &(u64, String)| json!({"id": id, "body": body});
            let comments: Vec<Value> = forge.pull(number)?.comments.iter().map(show).collect();
            Some(page(call, &comments))
        }
        ("POST", ["issues", number, "comments"]) => {
            let id = forge.next_id();
            forge.pull(number)?.comments.push((id, call.text("/body")));
            Some(Reply::new(201, json!({"id": id})))
        }
        ("PATCH", ["issues", "comments", id]) => {
            let mut all = forge.pulls.iter_mut().flat_map(|pull| pull.comments.iter_mut());
            all.find(|(known, _)| known.to_string() == *id)?.1 = call.text("/body");
            Some(Reply::new(200, json!({})))
        }
        ("POST", ["statuses", commit]) => {
            let state = call.text("/state");
            if !matches!(state.as_str(), "pending" | "success" | "failure" | "error")
                || call.text("/description").chars().count() > 140
            {
                return None;
            }
            forge.checks.push(((*commit).to_owned(), call.text("/context"), state));
            Some(Reply::new(201, json!({})))
        }
        _ => None,
    }
}
