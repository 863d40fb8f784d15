//! Names of charts in OCI registries.

use slipway_event::without_credentials;
use url::Url;

use crate::error::ChartError;

/// A chart in a registry: `oci://host/path/name[:tag][@digest]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OciReference {
    pub host: String,
    pub repository: String,
    pub tag: Option<String>,
    pub digest: Option<String>,
}

impl OciReference {
    pub fn parse(text: &str) -> Result<Self, ChartError> {
        let bad = || {
            let text = without_credentials(text);
            ChartError::Publish(format!(
                "invalid reference {text:?}: expected oci://HOST/PATH[:TAG][@DIGEST]"
            ))
        };
        let rest = text.strip_prefix("oci://").unwrap_or(text);
        let (rest, digest) = match rest.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest.to_owned())),
            None => (rest, None),
        };
        let (host, path) = rest.split_once('/').ok_or_else(bad)?;
        let (repository, tag) = match path.rsplit_once(':') {
            Some((path, tag)) if !tag.contains('/') => (path, Some(tag.to_owned())),
            _ => (path, None),
        };
        let part = |part: &str| {
            !part.is_empty()
                && part
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte))
        };
        let tag_is_sound = tag.as_ref().is_none_or(|tag| {
            tag.len() <= 128 && tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        });
        let parts_are_sound = repository.split('/').all(|one| part(one) && one != "." && one != "..");
        let digest_is_sound = digest.as_ref().is_none_or(|digest| is_digest(digest));
        if !is_host(host) || !parts_are_sound || !tag_is_sound || !digest_is_sound {
            return Err(bad());
        }
        Ok(Self { host: host.to_owned(), repository: repository.to_owned(), tag, digest })
    }

    /// The chart's name: the last part of the path.
    pub fn name(&self) -> &str {
        self.repository.rsplit('/').next().unwrap_or(&self.repository)
    }
}

impl std::fmt::Display for OciReference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.host, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        Ok(())
    }
}

/// `host[:port]` and nothing that would make an address mean another host.
pub(super) fn is_host(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    !text.is_empty() && text.bytes().all(plain) && Url::parse(&format!("https://{text}/")).is_ok()
}

/// `algorithm:hex`.
pub(super) fn is_digest(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"+._-".contains(&byte);
    text.split_once(':').is_some_and(|(algorithm, hex)| {
        !algorithm.is_empty()
            && algorithm.bytes().all(plain)
            && !hex.is_empty()
            && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_taken_apart() {
        let reference = OciReference::parse("oci://r.example:5000/a/b/chart:1.2.3_x@sha256:ab").unwrap();
        assert_eq!(reference.host, "r.example:5000");
        assert_eq!((reference.repository.as_str(), reference.name()), ("a/b/chart", "chart"));
        assert_eq!(reference.tag.as_deref(), Some("1.2.3_x"));
        assert_eq!(reference.digest.as_deref(), Some("sha256:ab"));
        for bad in [
            "oci://host",
            "oci:///x",
            "oci://h/A",
            "oci://h/a//b",
            "oci://h/a:b c",
            "oci://h/../a",
            "oci://h?x/a",
            "oci://h\\g/a",
            "oci://h#/a",
            "oci://h:port/a",
            "oci://u:p@h/a",
            "oci://h/a@sha256:../x",
            "oci://h/a@sha256",
        ] {
            assert!(OciReference::parse(bad).is_err(), "{bad}");
        }
    }
}
