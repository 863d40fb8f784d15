//! The origin of a chart: the form of `chart` says it, the fields around it must agree.

use slipway_problem::Problem;
use slipway_yaml::YamlNode;

use super::block::Block;
use crate::model::{Auth, ChartSource};

/// Reads `chart`, `repo`, `version` and `auth` of a helm block.
pub(crate) fn read(block: &Block<'_, '_>) -> Option<ChartSource> {
    let repo = block.filled("repo");
    let version = block.filled("version");
    let auth = auth(block);
    let Some((node, chart)) = block.filled("chart") else {
        if block.get("chart").is_none_or(|node| node.as_str() == Some("")) {
            block.missing("E200", Problem::error("chart is required"));
        }
        return None;
    };
    if ["./", "../", "/"].iter().any(|start| chart.starts_with(start)) {
        forbid(block, "repo", "E203", "a chart at a path");
        forbid(block, "version", "E205", "a chart at a path");
        forbid(block, "auth", "E206", "a chart at a path");
        return Some(ChartSource::Path(chart.to_owned()));
    }
    if let Some(reference) = chart.strip_prefix("oci://") {
        forbid(block, "repo", "E203", "an OCI reference");
        return oci(block, node, reference, version, auth);
    }
    from_repo(block, node, chart, repo, version, auth)
}

fn forbid(block: &Block<'_, '_>, key: &'static str, code: &str, what: &str) {
    if block.get(key).is_some() {
        block.error(block.key(key), key, code, format!("{key} is not allowed with {what}"));
    }
}

/// The `auth` block; both parts or an error.
fn auth(block: &Block<'_, '_>) -> Option<Auth> {
    let auth = block.block("auth")?;
    let username = auth.filled("username").map(|(_, text)| text.to_owned());
    let password = auth.filled("password").map(|(_, text)| text.to_owned());
    let wrong_type =
        ["username", "password"].iter().any(|key| auth.get(key).is_some_and(|node| node.as_str().is_none()));
    if !wrong_type && (username.is_none() || password.is_none()) {
        auth.missing("E208", Problem::error("auth needs both username and password"));
    }
    auth.finish(&[]);
    Some(Auth { username: username?, password: password? })
}

/// Splits `user:password@` off what follows a URL's scheme.
fn userinfo<'t>(
    block: &Block<'_, '_>,
    node: &YamlNode,
    key: &'static str,
    rest: &'t str,
    given: Option<Auth>,
) -> (&'t str, Option<Auth>) {
    let authority = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let Some(sign) = rest[..authority].rfind('@') else { return (rest, given) };
    let (inline, rest) = (&rest[..sign], &rest[sign + 1..]);
    if given.is_some() {
        block.error(
            node,
            key,
            "E207",
            "credentials stand both in the URL and in auth, which are mutually exclusive",
        );
    }
    let parts = inline.split_once(':').map(|(user, password)| (decoded(user), decoded(password)));
    match parts {
        Some((Some(username), Some(password))) if !username.is_empty() && !password.is_empty() => {
            (rest, Some(Auth { username, password }))
        }
        _ => {
            let problem = Problem::error("credentials in a URL need `username:password@`, both filled");
            block.report(
                node,
                key,
                "E208",
                problem.hint("encode special characters with `|urlquery`, or use auth:"),
            );
            (rest, given)
        }
    }
}

/// Undoes percent encoding; `+` stays `+`.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || char::from(rest.next()?).to_digit(16);
            bytes.push((digit()? * 16 + digit()?) as u8);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

fn twice(block: &Block<'_, '_>, chart: &YamlNode) {
    let place = block.findings.text().locate(chart.span.start);
    let problem = Problem::error("version is given inline and as a field, which are mutually exclusive");
    let hint = format!("the inline one is at {}:{}", place.line, place.column);
    block.report(block.key("version"), "version", "E204", problem.hint(hint));
}

fn oci(
    block: &Block<'_, '_>,
    node: &YamlNode,
    reference: &str,
    version: Option<(&YamlNode, &str)>,
    auth: Option<Auth>,
) -> Option<ChartSource> {
    let (reference, auth) = userinfo(block, node, "chart", reference, auth);
    let bad = |message: &str| {
        let problem = Problem::error(format!("chart: {message}"));
        block.report(node, "chart", "E210", problem.hint("write `oci://host/path:tag`"));
    };
    let Some((host, path)) =
        reference.split_once('/').filter(|(host, path)| !host.is_empty() && !path.is_empty())
    else {
        bad("an OCI reference needs a host and a repository");
        return None;
    };
    let last = path.rfind('/').map_or(0, |slash| slash + 1);
    let (before, segment) = path.split_at(last);
    let (tagged, digest) = match segment.split_once('@') {
        Some((tagged, digest)) => (tagged, Some(digest)),
        None => (segment, None),
    };
    let (name, tag) = match tagged.split_once(':') {
        Some((name, tag)) => (name, Some(tag)),
        None => (tagged, None),
    };
    if name.is_empty() {
        bad("an OCI reference needs a host and a repository");
        return None;
    }
    if tag.is_some_and(|tag| {
        tag.is_empty() || !tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-+".contains(&byte))
    }) {
        bad("the tag may hold letters, digits, `.`, `_` and `-`");
        return None;
    }
    if (tag.is_some() || digest.is_some()) && version.is_some() {
        twice(block, node);
    }
    let mut reference = format!("oci://{host}/{before}{name}");
    if let Some(digest) = digest {
        reference.push_str(&format!("@{digest}"));
    }
    let version = tag.map(str::to_owned).or_else(|| version.map(|(_, version)| version.to_owned()));
    warn_unpinned(block, node, version.is_none() && digest.is_none());
    Some(ChartSource::Oci { reference, version, auth })
}

fn from_repo(
    block: &Block<'_, '_>,
    node: &YamlNode,
    chart: &str,
    repo: Option<(&YamlNode, &str)>,
    version: Option<(&YamlNode, &str)>,
    auth: Option<Auth>,
) -> Option<ChartSource> {
    let (name, inline) = match chart.split_once(':') {
        Some((name, inline)) if name.is_empty() || inline.is_empty() || inline.contains(':') => {
            block.error(node, "chart", "E209", format!("`{chart}` is not `name:version`"));
            return None;
        }
        Some((name, inline)) => (name, Some(inline)),
        None => (chart, None),
    };
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)) {
        let problem = Problem::error(format!(
            "`{name}` is no chart name: letters, digits, `.`, `_` and `-` are allowed"
        ));
        let hint = if name.contains('/') { "a local chart starts with `./`" } else { "check its spelling" };
        block.report(node, "chart", "E216", problem.hint(hint));
        return None;
    }
    if inline.is_some() && version.is_some() {
        twice(block, node);
    }
    let Some((place, url)) = repo else {
        if block.get("repo").is_none_or(|node| node.as_str() == Some("")) {
            let problem = Problem::error(format!("repo is required for the chart `{name}`"));
            block.report(node, "chart", "E201", problem.hint("give repo:, or start a local chart with `./`"));
        }
        return None;
    };
    let scheme = ["http://", "https://"].into_iter().find(|scheme| url.starts_with(scheme));
    let rest = scheme.map(|scheme| &url[scheme.len()..]);
    let Some((scheme, rest)) = scheme.zip(rest).filter(|(_, rest)| !rest.is_empty()) else {
        block.error(place, "repo", "E202", "repo must be an HTTP(S) URL");
        return None;
    };
    let (rest, auth) = userinfo(block, place, "repo", rest, auth);
    let version = inline.map(str::to_owned).or_else(|| version.map(|(_, version)| version.to_owned()));
    warn_unpinned(block, node, version.is_none());
    Some(ChartSource::Repo { url: format!("{scheme}{rest}"), name: name.to_owned(), version, auth })
}

fn warn_unpinned(block: &Block<'_, '_>, node: &YamlNode, unpinned: bool) {
    if unpinned {
        let problem =
            Problem::warning("the chart's version is not pinned, so the next run may install another");
        block.report(node, "chart", "W001", problem.hint("give version:"));
    }
}
