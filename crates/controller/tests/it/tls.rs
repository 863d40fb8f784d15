//! TLS of the API: certificates that change while the process runs.

use slipway_http::server::{CertificateError, CertificateFiles, TlsSettings as _};

fn certificate(name: &str) -> (String, String) {
    let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).expect("is made");
    (made.cert.pem(), made.signing_key.serialize_pem())
}

#[test]
fn a_certificate_that_changes_is_used_and_a_broken_one_is_not() {
    let place = tempfile::tempdir().expect("a directory");
    let (crt, key) = (place.path().join("tls.crt"), place.path().join("tls.key"));
    let write = |(certificate, secret): (String, String)| {
        std::fs::write(&crt, certificate).expect("is written");
        std::fs::write(&key, secret).expect("is written");
    };
    assert!(matches!(CertificateFiles::load(&crt, &key), Err(CertificateError::Read { .. })));
    write(certificate("first.example"));
    let files = CertificateFiles::load(&crt, &key).expect("is read");
    let first = files.current();
    assert!(
        std::sync::Arc::ptr_eq(&first, &files.current()),
        "the same files are not read into something new"
    );
    write(certificate("second.example"));
    files.reload().expect("is read");
    let second = files.current();
    assert!(!std::sync::Arc::ptr_eq(&first, &second));
    std::fs::write(&crt, "nonsense").expect("is written");
    assert!(matches!(files.reload(), Err(CertificateError::Malformed { expected: "certificate", .. })));
    assert!(std::sync::Arc::ptr_eq(&second, &files.current()), "the last good one stays");
}
