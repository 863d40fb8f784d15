//! The packed form of a release in Helm's storage: JSON, gzip, base64.

use std::io::{Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use super::Release;

/// The most a server stores in one Secret or ConfigMap.
pub const SIZE_LIMIT: usize = 1024 * 1024;
/// A stored release that unpacks to more than this is no release.
const UNPACKED_LIMIT: u64 = 256 * 1024 * 1024;

/// The reason a stored release cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    #[error("it holds no release")]
    NoRelease,
    #[error("it is not base64: {0}")]
    Base64(#[from] base64::DecodeError),
    #[error("it does not unpack: {0}")]
    Gzip(#[from] std::io::Error),
    #[error("it unpacks to more than {} MiB", UNPACKED_LIMIT / 1024 / 1024)]
    TooLarge,
    #[error("it is not a release: {0}")]
    Json(#[from] serde_json::Error),
}

/// Packs a release into the text that stands under the key `release`.
pub fn encode_release(release: &Release) -> Result<String, CodecError> {
    let json = serde_json::to_vec(release)?;
    let mut packed = GzEncoder::new(Vec::with_capacity(json.len() / 4), Compression::best());
    packed.write_all(&json)?;
    Ok(STANDARD.encode(packed.finish()?))
}

/// Reads the packed form of any Helm version; very old ones did not compress.
pub fn decode_release(text: &[u8]) -> Result<Release, CodecError> {
    let packed = STANDARD.decode(text.trim_ascii())?;
    if !packed.starts_with(&[0x1f, 0x8b, 0x08]) {
        return Ok(serde_json::from_slice(&packed)?);
    }
    let mut json = Vec::new();
    GzDecoder::new(packed.as_slice()).take(UNPACKED_LIMIT + 1).read_to_end(&mut json)?;
    if json.len() as u64 > UNPACKED_LIMIT {
        return Err(CodecError::TooLarge);
    }
    Ok(serde_json::from_slice(&json)?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::RevisionStatus;
    use super::*;

    fn sample() -> serde_json::Value {
        json!({
            "name": "web",
            "info": {"first_deployed": "2026-01-02T03:04:05.123456789+02:00",
                     "last_deployed": "2026-01-02T03:04:05.123456789+02:00", "deleted": "",
                     "description": "Install complete", "status": "deployed", "notes": "hi",
                     "resources": {"v1/Pod": []}},
            "chart": {"metadata": {"name": "web", "version": "0.1.0"}, "lock": null, "templates": [],
                      "values": {"a": 1}, "schema": null, "files": [], "modtime": "x"},
            "config": {"b": {"c": [1, 2.5, "x"]}},
            "manifest": "---\n# Source: web/templates/a.yaml\nkind: ConfigMap\n",
            "hooks": [{"name": "h", "kind": "Job", "path": "web/templates/h.yaml", "manifest": "kind: Job\n",
                       "events": ["pre-install"],
                       "last_run": {"started_at": "", "completed_at": "", "phase": ""},
                       "weight": -5, "delete_policies": ["before-hook-creation"]}],
            "version": 3,
            "namespace": "shop",
            "apply_method": "ssa",
            "future": {"x": 1},
        })
    }

    #[test]
    fn what_is_unknown_is_kept() {
        let release: Release = serde_json::from_value(sample()).unwrap();
        assert_eq!(release.info.status, RevisionStatus::Deployed);
        assert_eq!(serde_json::to_value(&release).unwrap(), sample());
        assert_eq!(decode_release(encode_release(&release).unwrap().as_bytes()).unwrap(), release);
        assert!(release.info.first_deployed.timestamp().is_some());
        assert!(release.info.deleted.is_zero());
    }

    #[test]
    fn nulls_and_gaps_are_read() {
        let old = json!({"name": "a", "version": 1, "info": {"status": null, "deleted": null}, "config": null,
            "hooks": null, "chart": {"metadata": null, "values": null}});
        let packed = STANDARD.encode(old.to_string());
        let release = decode_release(packed.as_bytes()).unwrap();
        assert_eq!((release.version, release.info.status), (1, RevisionStatus::Unknown));
        assert_eq!(
            decode_release(STANDARD.encode(r#"{"name":"a","info":null,"chart":null}"#).as_bytes())
                .unwrap()
                .name,
            "a"
        );
    }

    #[test]
    fn damage_is_told() {
        for (text, says) in [
            ("%%", "base64"),
            ("H4sIAAAA", "unpack"),
            ("bm90IGpzb24=", "not a release"),
            ("", "not a release"),
        ] {
            let told = decode_release(text.as_bytes()).unwrap_err().to_string();
            assert!(told.contains(says), "{text}: {told}");
        }
    }
}
