//! Admission: everything that is decided about references before any backend is asked.

use std::collections::BTreeSet;
use std::path::Path;

use slipway_problem::Problem;

use crate::config::{CredentialSource, ProviderConfig, ProviderType, SecretsConfig};
use crate::error::{SecretsError, UnresolvedCause, UnresolvedSecret};
use crate::place::{ProblemSubject, ReferenceProblems};
use crate::policy::{JudgedReference, PolicyDecision, PolicyTarget};
use crate::reference::{ProviderName, SecretReference};
use crate::trust::{RepositoryTrust, check_trust};

/// A reference that may be fetched.
#[derive(Clone, Debug)]
pub(crate) struct AdmittedReference {
    /// As the values write it.
    pub(crate) written: SecretReference,
    /// With the default provider filled in.
    pub(crate) bound: SecretReference,
    pub(crate) provider: ProviderName,
    pub(crate) provider_type: ProviderType,
}

impl AdmittedReference {
    /// The same as a reference that got no value.
    pub(crate) fn unresolved(&self, cause: UnresolvedCause) -> UnresolvedSecret {
        UnresolvedSecret {
            reference: self.bound.clone(),
            written: self.written.clone(),
            place: None,
            provider_type: self.provider_type,
            cause,
        }
    }
}

/// The facts admission decides on.
pub(crate) struct AdmissionContext<'c> {
    pub(crate) config: &'c SecretsConfig,
    pub(crate) repository: Option<&'c Path>,
    pub(crate) trust: RepositoryTrust,
    pub(crate) target: &'c PolicyTarget,
    /// The node the values are for, as refusals name it.
    pub(crate) node: Option<&'c str>,
    /// Providers that were handed in ready made.
    pub(crate) known: &'c dyn Fn(&ProviderName) -> Option<ProviderType>,
}

/// Admits all references or says what is wrong with any of them.
pub(crate) fn admit_references(
    context: &AdmissionContext<'_>,
    references: &BTreeSet<SecretReference>,
) -> Result<Vec<AdmittedReference>, SecretsError> {
    let mut invalid = ReferenceProblems::default();
    let mut refused = ReferenceProblems::default();
    let mut admitted = Vec::new();
    let mut checked: BTreeSet<ProviderName> = BTreeSet::new();
    for reference in references {
        let subject = || ProblemSubject::Reference(reference.clone());
        let Some(name) = context.config.provider_of(reference) else {
            let message = format!("secret reference `{reference}` needs a default provider");
            let problem = Problem::error(message);
            invalid.push(subject(), problem.hint("set secrets.defaultProvider or give --secret-provider"));
            continue;
        };
        let provider_type = match context.provider_type(&name) {
            FoundProvider::Type(provider_type) => provider_type,
            FoundProvider::ImplicitForbidden => {
                let message =
                    format!("policy: {reference} uses the provider `{name}`, which is not configured");
                refused.push(
                    subject(),
                    Problem::error(message)
                        .hint("define it under `secrets.providers`: `policy.implicitProviders` is false"),
                );
                continue;
            }
            FoundProvider::Unknown => {
                let names = context.config.providers.keys().map(ProviderName::as_str);
                let problem = Problem::error(format!(
                    "secret reference `{reference}` names the unknown provider `{name}`"
                ));
                let problem = problem.did_you_mean(name.as_str(), names);
                let hint = problem
                    .hint
                    .clone()
                    .unwrap_or_else(|| "define it under `secrets.providers` of slipway.yaml".to_owned());
                invalid.push(subject(), problem.hint(hint));
                continue;
            }
        };
        let bound = reference.with_default_provider(&name);
        let judged = JudgedReference { reference: &bound, provider: &name, provider_type };
        if let Some(denied) = context.judge(judged) {
            refused.push(subject(), denied);
        }
        if checked.insert(name.clone())
            && let Some(provider) = context.config.providers.get(&name)
        {
            let untrusted = check_trust(provider, context.repository, context.trust);
            for problem in untrusted.into_iter().chain(context.check_literals(provider)) {
                refused.push(ProblemSubject::Other, problem);
            }
        }
        admitted.push(AdmittedReference { written: reference.clone(), bound, provider: name, provider_type });
    }
    if !refused.is_empty() {
        return Err(SecretsError::Refused(refused));
    }
    if !invalid.is_empty() {
        return Err(SecretsError::Invalid(invalid));
    }
    Ok(admitted)
}

enum FoundProvider {
    Type(ProviderType),
    ImplicitForbidden,
    Unknown,
}

impl AdmissionContext<'_> {
    fn provider_type(&self, name: &ProviderName) -> FoundProvider {
        if let Some(known) = (self.known)(name) {
            return FoundProvider::Type(known);
        }
        if let Some(provider) = self.config.providers.get(name) {
            return FoundProvider::Type(provider.settings.provider_type());
        }
        match implicit_type(name) {
            None => FoundProvider::Unknown,
            Some(_) if self.config.policies.iter().any(|policy| policy.forbid_implicit_providers) => {
                FoundProvider::ImplicitForbidden
            }
            Some(provider_type) => FoundProvider::Type(provider_type),
        }
    }

    fn judge(&self, judged: JudgedReference<'_>) -> Option<Problem> {
        let denied =
            self.config.policies.iter().find_map(|policy| match policy.judge(judged, self.target) {
                PolicyDecision::Deny { rule } => Some(rule),
                PolicyDecision::Allow => None,
            })?;
        let target = self.target_name();
        let (reference, provider_type) = (judged.reference, judged.provider_type);
        let message = format!("policy: {reference} (type {provider_type}) denied by rule `{denied}`{target}");
        Some(
            Problem::error(message)
                .hint("use a reference the policy allows, or ask who keeps `secrets.policy`"),
        )
    }

    fn target_name(&self) -> String {
        let parts = [self.target.cluster.as_deref(), self.target.namespace.as_deref()];
        let parts: Vec<&str> = parts.into_iter().flatten().collect();
        match (self.node, parts.is_empty()) {
            (Some(node), _) => format!(" for {node}"),
            (None, false) => format!(" for {}", parts.join("/")),
            (None, true) => String::new(),
        }
    }

    fn check_literals(&self, provider: &ProviderConfig) -> Vec<Problem> {
        if !self.config.policies.iter().any(|policy| policy.forbid_literal_credentials) {
            return Vec::new();
        }
        let literals = provider
            .settings
            .credentials()
            .into_iter()
            .filter(|credential| matches!(credential.source, CredentialSource::Literal(_)));
        let report = |place| {
            Problem::error(format!("policy: provider `{}` has a credential in plain text", provider.name))
                .at(place)
                .hint("write `env:NAME`, `file:PATH` or `cmd:[…]`: `policy.forbidLiteralCredentials` is true")
        };
        literals.map(|credential| report(credential.place.clone())).collect()
    }
}

/// The backend a name stands for without configuration: those that need nothing but ambient credentials.
pub(crate) fn implicit_type(name: &ProviderName) -> Option<ProviderType> {
    let found = ProviderType::parse(name.as_str()).filter(|found| found.name() == name.as_str());
    found.filter(|found| {
        matches!(
            found,
            ProviderType::Vault
                | ProviderType::AwsSecretsManager
                | ProviderType::AwsParameters
                | ProviderType::GcpSecretManager
        )
    })
}
