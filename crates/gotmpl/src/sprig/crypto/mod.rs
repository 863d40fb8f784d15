//! Passwords, ciphers, keys and certificates.

#[cfg(feature = "crypto")]
mod cipher;
#[cfg(feature = "crypto")]
mod der;
#[cfg(feature = "crypto")]
mod keys;
#[cfg(feature = "crypto")]
mod password;
#[cfg(feature = "crypto")]
mod x509;

use std::borrow::Cow;

use crate::func::{FuncMap, GoType};
use crate::object::GoObject;
use crate::str::GoString;
use crate::value::GoValue;

const CERTIFICATE: GoType = GoType::Named("sprig.certificate");

/// The result of `genCA` and its relatives: a certificate and its key in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificatePair {
    /// The certificate.
    pub cert: GoString,
    /// Its private key.
    pub key: GoString,
}

impl GoObject for CertificatePair {
    fn type_name(&self) -> Cow<'static, str> {
        "sprig.certificate".into()
    }

    fn field_list(&self) -> Vec<(&'static str, GoValue)> {
        vec![("Cert", self.cert.clone().into()), ("Key", self.key.clone().into())]
    }
}

const S: GoType = GoType::String;
const I: GoType = GoType::Int;
const L: GoType = GoType::List;

/// Name, parameters and result of every function here.
const SIGNATURES: [(&str, &[GoType], GoType); 13] = [
    ("bcrypt", &[S], S),
    ("htpasswd", &[S, S], S),
    ("derivePassword", &[GoType::Uint32, S, S, S, S], S),
    ("encryptAES", &[S, S], S),
    ("decryptAES", &[S, S], S),
    ("genPrivateKey", &[S], S),
    ("buildCustomCert", &[S, S], CERTIFICATE),
    ("genCA", &[S, I], CERTIFICATE),
    ("genCAWithKey", &[S, I, S], CERTIFICATE),
    ("genSelfSignedCert", &[S, L, L, I], CERTIFICATE),
    ("genSelfSignedCertWithKey", &[S, L, L, I, S], CERTIFICATE),
    ("genSignedCert", &[S, L, L, I, CERTIFICATE], CERTIFICATE),
    ("genSignedCertWithKey", &[S, L, L, I, CERTIFICATE, S], CERTIFICATE),
];

#[cfg(not(feature = "crypto"))]
pub(super) fn add_functions(map: &mut FuncMap) {
    for (name, params, result) in SIGNATURES {
        map.add(name, params, result, move |_, _| {
            Err(crate::func::FuncError::new(format!("{name} is not available: built without cryptography")))
        });
    }
}

#[cfg(feature = "crypto")]
pub(super) fn add_functions(map: &mut FuncMap) {
    use crate::func::{FuncArgs, FuncContext, FuncResult};

    let bodies: [fn(&mut FuncContext<'_>, FuncArgs<'_>) -> FuncResult; 13] = [
        |ctx, args| Ok(password::bcrypt_hash(ctx, args.str(0)).into()),
        |ctx, args| Ok(password::htpasswd_line(ctx, args.str(0), args.str(1)).into()),
        |_, args| password::derive_password(args),
        |ctx, args| cipher::encrypt_aes(ctx, args.str(0), args.str(1)),
        |_, args| cipher::decrypt_aes(args.str(0), args.str(1)),
        |ctx, args| keys::generate_pem(ctx, args.str(0)),
        |_, args| x509::build_custom(args.str(0), args.str(1)),
        |ctx, args| x509::generate_authority(ctx, args.str(0), args.int(1), None),
        |ctx, args| x509::generate_authority(ctx, args.str(0), args.int(1), Some(args.str(2))),
        |ctx, args| x509::self_signed(ctx, args, None),
        |ctx, args| x509::self_signed(ctx, args, Some(args.str(4))),
        |ctx, args| x509::generate_signed(ctx, args, None),
        |ctx, args| x509::generate_signed(ctx, args, Some(args.str(5))),
    ];
    for ((name, params, result), body) in SIGNATURES.into_iter().zip(bodies) {
        // Any of these takes as long as many thousand template nodes; those that make RSA and DSA keys
        // count that themselves.
        let steps = match name {
            "bcrypt" | "htpasswd" => 500_000,
            "derivePassword" => 1_500_000,
            _ => 20_000,
        };
        map.add_function(name, params, result, move |ctx, args| {
            ctx.charge_steps(steps)?;
            body(ctx, args)
        });
    }
}
