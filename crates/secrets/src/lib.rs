//! Secrets: `secret://provider/path#key` in values becomes what a real backend holds, at the last moment and
//! only in memory.
//!
//! * [`find_references`] finds the references of values, [`SecretReference`] is one of them.
//! * [`SecretsConfig`] is what `slipway.yaml` says of providers and policy, with the rules of trust.
//! * [`Resolver`] serves one run: it checks trust and policy, reads each path once, writes audit lines and gives
//!   [`ResolvedSecrets`], whose `substitute` puts values in the place of references.
//! * [`Sentinels`] stand for secrets where none may be fetched; [`compare_renders`] finds what depends on one.
//!
//! *Invariants:* no environment, home directory or standard input is read, nothing is printed; every value is
//! registered with the redactor before anybody gets it; no error, audit line or plan holds a value; what policy
//! or trust refuses never reaches a backend.

mod admit;
mod audit;
mod config;
mod digest;
mod discover;
mod environment;
mod error;
mod fetch;
mod material;
mod place;
mod policy;
mod provider;
mod reference;
mod resolved;
mod resolver;
mod scan;
mod select;
mod sentinel;
mod taint;
mod trust;
mod unresolved;
mod webhook;

pub use audit::{
    AuditError, AuditFile, AuditLine, AuditLog, AuditResult, AuditSink, CacheUse, NoAudit, Purpose,
    RunIdentity, read_audit,
};
pub use config::{
    AuditFailure, AuditSettings, ConfigLayer, ConfigOrigin, ConfigPlaces, ProviderType, ResolveLimits,
    SecretsConfig, config_schema, find_layers, repository_root,
};
pub use discover::{DiscoveredReference, discover_references};
pub use environment::Environment;
pub use error::{SecretsError, UnresolvedCause, UnresolvedSecret};
pub use material::{MaskingStrength, SecretContent, SecretJson};
pub use place::{ReferencePlaces, ReferenceProblems};
pub use policy::{Automation, PolicyTarget};
pub use provider::{
    EntryKind, ErrorCode, FetchOutcomes, FetchedSecret, ListEntry, LoginInfo, LogoutOutcome, Provider,
    ProviderError,
};
pub use reference::{
    FieldSelector, LeaseEnd, Locator, ProviderName, ReferenceError, SCHEME, SecretReference, TrimMode,
    ValueEncoding, ValueType, is_reference,
};
pub use resolved::{ResolvedSecret, ResolvedSecrets};
pub use resolver::{NodeContext, Resolver, ResolverOptions};
pub use scan::{FoundReference, Interpolation, distinct, find_references, mentions_secret};
pub use select::SelectError;
pub use sentinel::{SecretOrigin, Sentinels, sentinel_origin};
pub use taint::{
    FieldPath, Fingerprint, FingerprintKey, MaskedChange, ObjectSetDiffers, ObjectTaint, TaintOrigin,
    compare_renders,
};
pub use trust::RepositoryTrust;
pub use unresolved::{ALLOW_REFERENCES, find_unresolved};
