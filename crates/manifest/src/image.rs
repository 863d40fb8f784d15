//! References to container images, as container runtimes read them.

use std::fmt;
use std::str::FromStr;

use slipway_problem::Problem;

/// A reference to an image, as written: `[registry/]repository[:tag][@digest]`.
///
/// It prints as it was written. Short names are completed as runtimes do only where that is asked for: `nginx` is
/// `docker.io/library/nginx`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ImageReference {
    /// With the registry, as written: `nginx`, `registry.example.com:5000/acme/api`.
    pub repository: String,
    pub tag: Option<String>,
    /// With its algorithm: `sha256:…`.
    pub digest: Option<String>,
}

/// A text that is no reference to an image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no reference to an image")]
pub struct InvalidImage(pub String);

impl From<InvalidImage> for Problem {
    fn from(error: InvalidImage) -> Self {
        Self::error(error.to_string()).hint("write [REGISTRY/]REPOSITORY[:TAG][@sha256:…]")
    }
}

const DEFAULT_REGISTRY: &str = "docker.io";

impl ImageReference {
    /// The registry, completed: `docker.io`, `registry.example.com:5000`.
    pub fn registry(&self) -> &str {
        split_name(&self.repository).0
    }

    /// The path within the registry, completed: `library/nginx`.
    pub fn path(&self) -> String {
        split_name(&self.repository).1
    }

    /// The repository with everything runtimes assume: `docker.io/library/nginx`.
    pub fn full_repository(&self) -> String {
        full_repository(&self.repository)
    }

    /// The last part of the repository.
    pub fn short_name(&self) -> &str {
        self.repository.rsplit('/').next().unwrap_or(&self.repository)
    }

    /// The registry as written, if one is, and the rest.
    pub fn split_registry(&self) -> (Option<&str>, &str) {
        match self.repository.split_once('/') {
            Some((first, rest)) if is_registry(first) => (Some(first), rest),
            _ => (None, &self.repository),
        }
    }

    /// The tag that is pulled when no digest is given: `latest` where none is written.
    pub fn effective_tag(&self) -> Option<&str> {
        match (&self.tag, &self.digest) {
            (Some(tag), _) => Some(tag),
            (None, None) => Some("latest"),
            (None, Some(_)) => None,
        }
    }
}

/// A repository with everything runtimes assume: `nginx` is `docker.io/library/nginx`.
pub fn full_repository(repository: &str) -> String {
    let (registry, path) = split_name(repository);
    format!("{registry}/{path}")
}

/// Tells that a text is `sha256:` and 64 hex digits.
pub fn is_sha256_digest(text: &str) -> bool {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.strip_prefix("sha256:").is_some_and(|hex| hex.len() == 64 && hex.bytes().all(is_hex))
}

/// The registry and the path of a name, both completed.
fn split_name(name: &str) -> (&str, String) {
    let (registry, path) = match name.split_once('/') {
        Some((first, path)) if is_registry(first) => (first, path),
        _ => (DEFAULT_REGISTRY, name),
    };
    let registry = if registry == "index.docker.io" { DEFAULT_REGISTRY } else { registry };
    match path.contains('/') {
        false if registry == DEFAULT_REGISTRY => (registry, format!("library/{path}")),
        _ => (registry, path.to_owned()),
    }
}

impl FromStr for ImageReference {
    type Err = InvalidImage;

    fn from_str(text: &str) -> Result<Self, InvalidImage> {
        let invalid = || InvalidImage(text.to_owned());
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (text, None),
        };
        let last = rest.rfind('/').map_or(0, |slash| slash + 1);
        let (name, tag) = match rest[last..].find(':') {
            Some(colon) => (&rest[..last + colon], Some(&rest[last + colon + 1..])),
            None => (rest, None),
        };
        let (registry, path) = split_name(name);
        let is_valid = is_host(registry)
            && path.split('/').all(is_path_part)
            && tag.is_none_or(is_tag)
            && digest.is_none_or(is_digest);
        if !is_valid {
            return Err(invalid());
        }
        Ok(Self {
            repository: name.to_owned(),
            tag: tag.map(str::to_owned),
            digest: digest.map(str::to_owned),
        })
    }
}

impl fmt::Display for ImageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        match &self.digest {
            Some(digest) => write!(f, "@{digest}"),
            None => Ok(()),
        }
    }
}

/// Tells a registry from the first part of a path.
fn is_registry(part: &str) -> bool {
    part.contains(['.', ':']) || part == "localhost" || part.chars().any(|c| c.is_ascii_uppercase())
}

fn is_host(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']'))
}

fn is_path_part(text: &str) -> bool {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.starts_with(is_word)
        && text.ends_with(is_word)
        && text.chars().all(|c| is_word(c) || matches!(c, '.' | '_' | '-'))
}

fn is_tag(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && !text.starts_with(['.', '-'])
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
}

fn is_digest(text: &str) -> bool {
    text.split_once(':').is_some_and(|(algorithm, hex)| {
        !algorithm.is_empty() && hex.len() >= 32 && hex.chars().all(|c| c.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_print_as_written_and_are_completed_as_runtimes_do() {
        for (text, registry, path) in [
            ("nginx", "docker.io", "library/nginx"),
            ("nginx:1.27", "docker.io", "library/nginx"),
            ("docker.io/nginx", "docker.io", "library/nginx"),
            ("index.docker.io/library/nginx", "docker.io", "library/nginx"),
            ("acme/api:2", "docker.io", "acme/api"),
            ("localhost/api", "localhost", "api"),
            ("registry:5000/a/b:v1", "registry:5000", "a/b"),
            ("ghcr.io/acme/api", "ghcr.io", "acme/api"),
        ] {
            let reference: ImageReference = text.parse().unwrap();
            assert_eq!((reference.registry(), reference.path().as_str()), (registry, path), "{text}");
            assert_eq!(reference.full_repository(), format!("{registry}/{path}"));
            assert_eq!(reference.to_string(), text);
        }
        let digest = format!("sha256:{}", "ab".repeat(32));
        let pinned: ImageReference = format!("ghcr.io/acme/api:2@{digest}").parse().unwrap();
        assert_eq!((pinned.tag.as_deref(), pinned.digest.as_deref()), (Some("2"), Some(digest.as_str())));
        assert_eq!((pinned.short_name(), pinned.split_registry()), ("api", (Some("ghcr.io"), "acme/api")));
        let short: ImageReference = "acme/api".parse().unwrap();
        assert_eq!(short.split_registry(), (None, "acme/api"));
    }

    #[test]
    fn a_missing_tag_is_latest_unless_a_digest_says_more() {
        let tag = |text: &str| text.parse::<ImageReference>().unwrap().effective_tag().map(str::to_owned);
        assert_eq!(tag("nginx"), Some("latest".to_owned()));
        assert_eq!(tag("nginx:1"), Some("1".to_owned()));
        assert_eq!(tag(&format!("nginx@sha256:{}", "0".repeat(64))), None);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in
            ["", ":1", "a b", "nginx:", "nginx@", "nginx@sha256:xyz", "UPPER", "a//b", "nginx:-x", "{{ x }}"]
        {
            assert_eq!(text.parse::<ImageReference>(), Err(InvalidImage(text.to_owned())));
        }
    }
}
