//! Certificate signing requests: who may approve and sign for a signer, and what nobody may ask for.

use base64::Engine;
use serde_json::Value;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer;

use super::User;
use super::rbac::{self, RequestAttributes, decide_access};
use crate::api::resource::ServedResource;
use crate::core::Core;
use crate::status::{Result, Status};
use crate::write::admit::prepare::ObjectPart;

const GROUP: &str = "certificates.k8s.io";
/// The signer whose certificates authenticate clients of the API server.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
const MASTERS: &str = "system:masters";

/// Refuses a request for a certificate of the administrators' group, whoever asks.
pub(crate) fn check_create(served: &ServedResource, new: &Value) -> Result<()> {
    if served.rule_key() != (GROUP, "CertificateSigningRequest") || new["spec"]["signerName"] != CLIENT_SIGNER
    {
        return Ok(());
    }
    if organizations(&new["spec"]["request"]).iter().any(|group| group == MASTERS) {
        let why = format!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed");
        return Err(Status::forbidden(
            served.resource_name(),
            crate::write::admit::meta::metadata_text(new, "name"),
            &why,
        ));
    }
    Ok(())
}

/// Refuses an approval or a signature by somebody who may not speak for the signer.
pub(crate) fn check_update(
    core: &Core,
    user: &User,
    served: &ServedResource,
    part: ObjectPart,
    old: &Value,
    new: &Value,
) -> Result<()> {
    if served.rule_key() != (GROUP, "CertificateSigningRequest") || rbac::may_skip(core, user) {
        return Ok(());
    }
    let verb = match part {
        ObjectPart::Approval => "approve",
        ObjectPart::Status if old["status"] != new["status"] => "sign",
        _ => return Ok(()),
    };
    let signer = old["spec"]["signerName"].as_str().unwrap_or("");
    let domain = signer.split_once('/').map_or(signer, |(domain, _)| domain);
    let holds = |name: &str| {
        let asked = RequestAttributes {
            verb,
            group: GROUP,
            resource: "signers",
            subresource: "",
            namespace: "",
            name,
            path: "",
        };
        decide_access(core, user, &asked).allowed
    };
    if holds(signer) || holds(&format!("{domain}/*")) {
        return Ok(());
    }
    let why = format!("user not permitted to {verb} requests with signerName \"{signer}\"");
    Err(Status::forbidden(
        served.resource_name(),
        crate::write::admit::meta::metadata_text(new, "name"),
        &why,
    ))
}

/// The groups a request's subject names.
fn organizations(request: &Value) -> Vec<String> {
    let text = request.as_str().unwrap_or("");
    let pem = base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default();
    let Ok((_, pem)) = x509_parser::pem::parse_x509_pem(&pem) else { return Vec::new() };
    let Ok((_, parsed)) = X509CertificationRequest::from_der(&pem.contents) else { return Vec::new() };
    let subject = &parsed.certification_request_info.subject;
    subject.iter_organization().filter_map(|o| o.as_str().ok()).map(str::to_owned).collect()
}
