//! `verify-image`: checks the signatures of a bundle's images with a public key, as cosign stores them in the registry.
//!
//! Signatures without a key (a certificate of a person or a workflow, and its entry in a public log) are not checked: they
//! need roots of trust that are renewed over the network. A step that asks for them fails.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256,
    UnparsedPublicKey, VerificationAlgorithm,
};
use data_encoding::BASE64;
use secrecy::ExposeSecret as _;
use serde_json::Value;
use slipway_chart::ChartError;
use slipway_chart::net::{Login, pull_layers};

use crate::kinds::{ImageArtifact, SecretRef};
use crate::registry::registry_reference;
use crate::step::access::SecretContent;
use crate::step::context::StepContext;
use crate::step::outcome::{Dependency, StepError, StepOutput, StepProgressed};

/// The type of the layers that are signed.
const PAYLOAD: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";

pub(super) async fn run(context: &mut StepContext<'_>) -> Result<StepProgressed, StepError> {
    let config = &context.entry().config;
    let reference = |name: &str| -> Result<Option<SecretRef>, StepError> {
        let wrong = |_| StepError::failed("InvalidConfig", format!("`{name}` names no Secret"));
        config.get(name).map(|value| serde_json::from_value(value.clone()).map_err(wrong)).transpose()
    };
    if config.contains_key("issuer") || config.contains_key("identityRegexp") {
        let message =
            "signatures without a key cannot be checked here: give `publicKeySecretRef` or `publicKey`";
        return Err(StepError::failed("KeylessUnsupported", message));
    }
    let namespace = context.step.namespace();
    let key = match (context.text("publicKey"), reference("publicKeySecretRef")?) {
        (Some(text), _) => PublicKey::parse(text)?,
        (None, Some(secret)) => {
            let secret = context.shared.read_secret(namespace, &secret, Dependency::Cluster).await?;
            let text = secret.text("cosign.pub").or_else(|| secret.text("publicKey"));
            let missing = || StepError::failed("InvalidConfig", "the Secret has no `cosign.pub`");
            PublicKey::parse(text.ok_or_else(missing)?.expose_secret())?
        }
        (None, None) => {
            return Err(StepError::failed("InvalidConfig", "`verify-image` needs `publicKeySecretRef`"));
        }
    };
    let login = match reference("registrySecretRef")? {
        Some(secret) => Some(context.shared.read_secret(namespace, &secret, Dependency::Cluster).await?),
        None => None,
    };
    let images = &context.bundle.spec.artifacts.images;
    for image in images {
        verify(context, image, &key, login.as_ref()).await?;
    }
    Ok(StepOutput::new(format!("{} images are signed", images.len()))
        .output("verifiedImages", images.len().to_string())
        .into())
}

/// Checks one image: one good signature of its digest is enough.
async fn verify(
    context: &StepContext<'_>,
    image: &ImageArtifact,
    key: &PublicKey,
    login: Option<&SecretContent>,
) -> Result<(), StepError> {
    let invalid =
        |why: String| StepError::failed("SignatureInvalid", format!("{}: {why}", image.repository()));
    let Some(digest) = &image.digest else {
        return Err(invalid("the bundle names no digest, and a tag may be moved".to_owned()));
    };
    let mut reference = registry_reference(image.repository()).map_err(|error| invalid(error.to_string()))?;
    reference.tag = Some(format!("{}.sig", digest.replace(':', "-")));
    let client = context.shared.outbound.registry(&reference.host, false);
    let client = client.map_err(|error| invalid(error.to_string()))?;
    let login = login.and_then(|secret| {
        let (user, password) = (secret.word("username")?, secret.word("password")?);
        let username = user.expose_secret().to_owned();
        Some(Login { username, password: password.expose_secret().to_owned() })
    });
    let layers = pull_layers(&client, login, &reference, PAYLOAD).await.map_err(|error| match error {
        ChartError::Interrupted(_) => StepError::Stopped,
        error => StepError::trouble(Dependency::Webhook, "RegistryUnavailable", error.to_string()),
    })?;
    let Some(layers) = layers.filter(|layers| !layers.is_empty()) else {
        return Err(invalid(format!("{digest} is not signed")));
    };
    let is_signed = layers.iter().any(|layer| {
        let signature = layer.annotations.get(SIGNATURE).and_then(|text| BASE64.decode(text.as_bytes()).ok());
        let is_good = signature.is_some_and(|signature| key.verifies(&layer.content, &signature));
        is_good && names_digest(&layer.content, digest)
    });
    if is_signed { Ok(()) } else { Err(invalid(format!("no signature of {digest} is made with the key"))) }
}

/// Tells that a signed payload is about an image.
fn names_digest(payload: &[u8], digest: &str) -> bool {
    let Ok(payload) = serde_json::from_slice::<Value>(payload) else { return false };
    payload.pointer("/critical/image/docker-manifest-digest").and_then(Value::as_str) == Some(digest)
        && payload.pointer("/critical/type").and_then(Value::as_str)
            == Some("cosign container image signature")
}

/// A public key in PEM form: ECDSA, Ed25519 or RSA.
struct PublicKey(ParsedPublicKey);

/// The kinds of keys signatures are made with.
static ALGORITHMS: [&dyn VerificationAlgorithm; 4] =
    [&ECDSA_P256_SHA256_ASN1, &ECDSA_P384_SHA384_ASN1, &ED25519, &RSA_PKCS1_2048_8192_SHA256];

impl PublicKey {
    fn parse(pem: &str) -> Result<Self, StepError> {
        let wrong = || {
            StepError::failed("InvalidConfig", "the public key is no ECDSA, Ed25519 or RSA key in PEM form")
        };
        let body: String = pem.lines().filter(|line| !line.starts_with("-----")).map(str::trim).collect();
        let der = BASE64.decode(body.as_bytes()).map_err(|_| wrong())?;
        let parsed =
            ALGORITHMS.iter().find_map(|algorithm| UnparsedPublicKey::new(*algorithm, &der).parse().ok());
        parsed.map(Self).ok_or_else(wrong)
    }

    fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        self.0.verify_sig(message, signature).is_ok()
    }
}
