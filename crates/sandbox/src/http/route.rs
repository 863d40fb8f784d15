//! Parsing of URL paths.

/// A path below `/api` or `/apis`, taken apart.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ResourcePath {
    pub group: String,
    pub version: String,
    pub resource: String,
    pub namespace: String,
    pub name: String,
    pub subresource: String,
    /// The deprecated `/watch/` prefix was used.
    pub watch: bool,
}

/// The target of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestTarget {
    Resource(ResourcePath),
    /// `/api`, `/apis`, `/apis/G`, `/apis/G/V`, `/api/v1`.
    Versions,
    Groups,
    Group(String),
    Resources {
        group: String,
        version: String,
    },
    /// Anything else: health, OpenAPI, version, unknown.
    Other,
}

/// Reads a percent-encoded path. `None` when it holds something no name may: an empty or dotted segment
/// or an encoding that is no UTF-8.
pub(crate) fn parse_path(path: &str) -> Option<RequestTarget> {
    let trimmed = path.strip_prefix('/').unwrap_or(path);
    let mut segments: Vec<String> = Vec::new();
    for raw in trimmed.split('/') {
        segments.push(decode_segment(raw)?);
    }
    if segments.last().is_some_and(String::is_empty) {
        segments.pop();
    }
    let parts: Vec<&str> = segments.iter().map(String::as_str).collect();
    Some(match parts.as_slice() {
        ["api"] => RequestTarget::Versions,
        ["apis"] => RequestTarget::Groups,
        ["apis", group] => RequestTarget::Group((*group).to_owned()),
        ["api", version] => RequestTarget::Resources { group: String::new(), version: (*version).to_owned() },
        ["apis", group, version] => {
            RequestTarget::Resources { group: (*group).to_owned(), version: (*version).to_owned() }
        }
        ["api", version, rest @ ..] => parse_resource("", version, rest)?,
        ["apis", group, version, rest @ ..] => parse_resource(group, version, rest)?,
        _ => RequestTarget::Other,
    })
}

fn parse_resource(group: &str, version: &str, rest: &[&str]) -> Option<RequestTarget> {
    let mut path = ResourcePath { group: group.into(), version: version.into(), ..ResourcePath::default() };
    let mut rest = rest;
    if let ["watch", tail @ ..] = rest {
        path.watch = true;
        rest = tail;
    }
    if rest.iter().any(|s| s.is_empty() || *s == "." || *s == ".." || s.contains('/')) {
        return None;
    }
    match rest {
        // `namespaces/x/status` and `finalize` are subresources; any other third word is a resource.
        ["namespaces", name, sub @ ("status" | "finalize")] => {
            path.resource = "namespaces".into();
            path.name = (*name).into();
            path.subresource = (*sub).into();
        }
        ["namespaces", namespace, resource, tail @ ..] => {
            path.namespace = (*namespace).into();
            path.resource = (*resource).into();
            fill_segments(&mut path, tail)?;
        }
        [resource, tail @ ..] => {
            path.resource = (*resource).into();
            fill_segments(&mut path, tail)?;
        }
        [] => return Some(RequestTarget::Other),
    }
    Some(RequestTarget::Resource(path))
}

fn fill_segments(path: &mut ResourcePath, tail: &[&str]) -> Option<()> {
    match tail {
        [] => {}
        [name] => path.name = (*name).into(),
        [name, subresource @ ..] => {
            path.name = (*name).into();
            // Only proxies take more than one word; what follows is theirs.
            path.subresource = subresource.first().map(|s| (*s).to_owned())?;
            if subresource.len() > 1 && path.subresource != "proxy" {
                return None;
            }
        }
    }
    Some(())
}

/// Percent-decoding of one path segment.
pub(crate) fn decode_segment(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    decode_bytes(text, false)
}

/// Percent-decoding; in a query, `+` is a space.
pub(crate) fn decode_bytes(text: &str, query: bool) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        match bytes[i] {
            b'%' => {
                let hex = text.get(i + 1..i + 3)?;
                out.push(u8::from_str_radix(hex, 16).ok()?);
                i += 3;
                continue;
            }
            b'+' if query => out.push(b' '),
            b => out.push(b),
        }
        i += 1;
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> ResourcePath {
        match parse_path(text) {
            Some(RequestTarget::Resource(p)) => p,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn resource_paths() {
        let p = path("/api/v1/namespaces/a/pods/b/log");
        assert_eq!((p.namespace.as_str(), p.resource.as_str(), p.name.as_str()), ("a", "pods", "b"));
        assert_eq!(p.subresource, "log");
        let p = path("/api/v1/namespaces/a/status");
        assert_eq!(
            (p.resource.as_str(), p.name.as_str(), p.subresource.as_str()),
            ("namespaces", "a", "status")
        );
        let p = path("/apis/apps/v1/watch/namespaces/a/deployments/d");
        assert!(p.watch);
        assert_eq!(p.name, "d");
        assert_eq!(path("/api/v1/namespaces/a").resource, "namespaces");
        assert_eq!(path("/api/v1/namespaces/a").name, "a");
    }

    #[test]
    fn traversal_is_no_path() {
        for bad in [
            "/api/v1/namespaces/../pods",
            "/api/v1/namespaces/%2e%2e/pods",
            "/api/v1/namespaces//pods",
            "/api/v1/pods/%ff",
            "/api/v1/namespaces/a/pods/b/log/extra",
        ] {
            assert_eq!(parse_path(bad), None, "{bad}");
        }
    }
}
