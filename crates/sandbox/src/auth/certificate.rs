//! The user a client certificate names.

use std::sync::Arc;

use x509_parser::prelude::{FromDer, X509Certificate};

use super::User;

/// Reads common name and organisations of a certificate whose signature the TLS layer has verified.
pub(crate) fn certificate_user(der: &[u8]) -> Option<Arc<User>> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?;
    let groups: Vec<&str> = subject.iter_organization().filter_map(|o| o.as_str().ok()).collect();
    let mut user = User::new(name, &groups);
    let digest = <sha2::Sha256 as sha2::Digest>::digest(der);
    let hex = data_encoding::HEXLOWER.encode(&digest);
    user.extra.insert("authentication.kubernetes.io/credential-id".into(), vec![format!("X509SHA256={hex}")]);
    Some(Arc::new(user))
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;

    use super::*;
    use crate::auth::pki::CertificateAuthority;

    #[test]
    fn the_subject_names_user_and_groups() {
        let authority = CertificateAuthority::open(None).unwrap();
        for groups in [&[][..], &["dev"], &["dev", "ops"]] {
            let given: Vec<String> = groups.iter().map(|g| (*g).to_owned()).collect();
            let (pem, _) = authority.client_certificate("alice", &given).unwrap();
            let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
            let user = certificate_user(&der).unwrap();
            assert_eq!((user.name.as_str(), &user.groups), ("alice", &User::new("alice", groups).groups));
        }
        assert!(certificate_user(b"no certificate").is_none());
    }
}
