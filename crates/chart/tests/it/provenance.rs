//! Signed charts: what Helm signed we check, what we sign can be checked; keys made by GnuPG.

use slipway_chart::provenance::Keyring;
use slipway_chart::{Chart, ChartInput, ChartMetadata, LoadOptions, Notices};

const PUBLIC: &[u8] = include_bytes!("../provenance/public.gpg");
const SECRET: &[u8] = include_bytes!("../provenance/secret.gpg");
const ARCHIVE: &[u8] = include_bytes!("../provenance/web-0.1.0.tgz");
/// Signed by Helm 3.17.3.
const BY_HELM: &str = include_str!("../provenance/web-0.1.0.tgz.prov");
const NAME: &str = "web-0.1.0.tgz";
const NOW: u64 = 1_900_000_000;

fn metadata() -> ChartMetadata {
    let options = LoadOptions::default();
    Chart::load_with(ChartInput::Archive(ARCHIVE), &options, &mut Notices::new()).unwrap().metadata
}

#[test]
fn what_helm_signed_is_accepted_and_any_change_refused() {
    let keys = Keyring::parse(PUBLIC).unwrap();
    let verified = keys.verify(NAME, ARCHIVE, BY_HELM, NOW).unwrap();
    assert_eq!(verified.signed_by, ["Locked Test <locked@example.com>"]);
    assert_eq!(verified.fingerprint.len(), 40);
    assert!(verified.to_string().ends_with(&format!("Chart Hash Verified: {}\n", verified.hash)));

    let other = [ARCHIVE, b"x"].concat();
    let crlf = BY_HELM.replace('\n', "\r\n");
    let changed = BY_HELM.replace("type: application", "type: library");
    let nobody = Keyring::parse(b"").unwrap();
    assert!(keys.verify(NAME, ARCHIVE, &crlf, NOW).is_ok(), "line ends do not count");
    for (keys, name, archive, text, expected) in [
        (&keys, NAME, other.as_slice(), BY_HELM, "sha256 sum does not match for web-0.1.0.tgz"),
        (&keys, "x.tgz", ARCHIVE, BY_HELM, "provenance does not contain a SHA for a file named \"x.tgz\""),
        (&keys, NAME, ARCHIVE, changed.as_str(), "openpgp: invalid signature"),
        (&nobody, NAME, ARCHIVE, BY_HELM, "openpgp: signature made by unknown entity"),
        (&keys, NAME, ARCHIVE, "just text", "signature block not found"),
    ] {
        let error = keys.verify(name, archive, text, NOW).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn every_kind_of_key_signs() {
    let secret = Keyring::parse(SECRET).unwrap();
    let public = Keyring::parse(PUBLIC).unwrap();
    for (key, passphrase) in [("plain@", ""), ("Locked Test", "open sesame"), ("curve@example.com", "")] {
        let text = secret.sign(key, passphrase.as_bytes(), &metadata(), NAME, ARCHIVE, NOW).unwrap();
        let verified = public.verify(NAME, ARCHIVE, &text, NOW).unwrap();
        assert!(verified.signed_by[0].contains(key), "{verified:?}");
    }
    let refused = |keys: &Keyring, key: &str, passphrase: &str| {
        keys.sign(key, passphrase.as_bytes(), &metadata(), NAME, ARCHIVE, NOW).unwrap_err().to_string()
    };
    assert_eq!(refused(&secret, "Locked", "wrong"), "the passphrase does not fit the key");
    assert_eq!(refused(&secret, "Test", ""), "the key name \"Test\" fits more than one key");
    assert_eq!(refused(&secret, "nobody", ""), "private key not found: no key is named \"nobody\"");
    assert_eq!(refused(&public, "plain@", ""), "the keyring has only the public part of the key");
}

#[test]
fn damaged_data_ends_in_an_error() {
    for cut in (0..SECRET.len()).step_by(11) {
        let _ = Keyring::parse(&SECRET[..cut]);
        let mut bytes = SECRET.to_vec();
        bytes[cut] ^= 0x55;
        let _ = Keyring::parse(&bytes);
    }
    let keys = Keyring::parse(PUBLIC).unwrap();
    for cut in (0..BY_HELM.len()).step_by(5) {
        let _ = keys.verify(NAME, ARCHIVE, &BY_HELM[..cut], NOW);
    }
}

/// Keyrings and signatures made by GnuPG and what it thinks of them, recorded by
/// `conformance/provenance.py`.
const CASES: &str = include_str!("../provenance/cases.json");
const RECORDED: &[u8] = b"not really a chart";

/// Good for GnuPG and not for us: no library of ours checks RSA with SHA-224.
const STRICTER: [&str; 1] = ["digest-sha224"];

#[test]
fn keys_that_gnupg_does_not_trust_are_refused() {
    use base64::Engine as _;
    let cases: serde_json::Map<String, serde_json::Value> = serde_json::from_str(CASES).unwrap();
    assert!(cases.len() >= 40);
    for (name, case) in &cases {
        let text = |key: &str| case[key].as_str().unwrap();
        let bytes = base64::engine::general_purpose::STANDARD.decode(text("keyring")).unwrap();
        let found = Keyring::parse(&bytes)
            .and_then(|keys| keys.verify("web-0.1.0.tgz", RECORDED, text("provenance"), NOW));
        let expected = text("verdict") == "good" && !STRICTER.contains(&name.as_str());
        assert_eq!(found.is_ok(), expected, "{name}: GnuPG says {}, we say {found:?}", text("verdict"));
        let Err(error) = &found else {
            assert!(!found.unwrap().to_string().contains("Evil"), "{name}: nobody vouches for that name");
            continue;
        };
        let error = error.to_string();
        let reason = match text("verdict") {
            "REVKEYSIG" => "revoked",
            "EXPKEYSIG" | "EXPSIG" => "expired",
            "BADSIG" => "invalid signature",
            _ => "",
        };
        assert!(error.contains(reason), "{name}: {error}");
    }
}

#[test]
fn revoked_and_expired_keys_do_not_sign() {
    use base64::Engine as _;
    let cases: serde_json::Value = serde_json::from_str(CASES).unwrap();
    for (name, expected) in [("primary-revoked-reason-0", "revoked"), ("primary-expired", "expired")] {
        let keyring = cases[name]["keyring"].as_str().unwrap();
        let keys =
            Keyring::parse(&base64::engine::general_purpose::STANDARD.decode(keyring).unwrap()).unwrap();
        let error = keys.sign("Test", b"", &metadata(), NAME, ARCHIVE, NOW).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
