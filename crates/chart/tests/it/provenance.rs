//! Signed charts: what Helm signed we check, what we sign can be checked; keys made by GnuPG.

use slipway_chart::provenance::Keyring;
use slipway_chart::{Chart, LoadOptions, Metadata, Notices, Source};

const PUBLIC: &[u8] = include_bytes!("../provenance/public.gpg");
const SECRET: &[u8] = include_bytes!("../provenance/secret.gpg");
const ARCHIVE: &[u8] = include_bytes!("../provenance/web-0.1.0.tgz");
/// Signed by Helm 3.17.3.
const BY_HELM: &str = include_str!("../provenance/web-0.1.0.tgz.prov");
const NAME: &str = "web-0.1.0.tgz";
const NOW: u64 = 1_900_000_000;

fn metadata() -> Metadata {
    let options = LoadOptions::default();
    Chart::load_with(Source::Archive(ARCHIVE), &options, &mut Notices::new()).unwrap().metadata
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
