//! Release units: one file that is bundled, applied, promoted and verified.
//!
//! A unit holds a source, its values (references to secrets, never secrets), image digests, the hashes of what it
//! renders to, policies and a strategy: sealed by [`bundle`](bundle()), and proven again before every apply. Its ledger
//! keeps what was done with it. [`UnitFile`] opens one; files come from elsewhere and are checked before they are used.

mod apply;
mod bundle;
mod container;
mod deploy;
mod deployed;
mod environment;
mod error;
mod evidence;
mod export;
mod image;
mod inspect;
mod ledger;
mod overlay;
mod parallel;
mod plan;
mod proof;
mod render;
mod replay;
mod resume;
mod rollback;
mod schema;
mod sign;
mod source;
pub mod strategy;
mod transport;
mod values;
mod verify;

pub use apply::{
    ApplyContext, ApplyOutcome, ApplyRequest, EvidenceNeed, FailedVerification, RepeatedApply, apply_unit,
};
pub use bundle::{
    BundleContext, BundleReport, BundleRequest, NondeterministicFields, SourceRevision, bundle,
};
pub use container::{
    BindingConfidence, BindingKind, BindingRow, BuildRow, ChartRow, FileRow, ImageOrigin, ImagePlatform,
    ImageRow, ImageUseRow, LayerKind, ManifestRow, ObjectRow, OpenOptions, OverlaySlotRow, PolicyRow,
    SealedRows, SecretRefRow, SignatureRow, SourceKind, UnitFile, ValueLayerRow,
};
pub use deploy::{DeployContext, DeployOutcome};
pub use deployed::{find_deployed_evidence, mark_verification};
pub use environment::{Environment, Environments, TargetChoice};
pub use error::UnitError;
pub use evidence::{AppliedUnit, EvidenceRule, applies, require_evidence, verified_environments};
pub use export::{
    ExportFiles, ExportFormat, ExportOptions, ExportSecrets, PublishError, PublishOutcome, PublishRequest,
    SecretStoreName, export_unit, publish_export, verify_export, write_export,
};
pub use image::{
    BuilderCommand, ImageInput, ImageMapping, ImageResolver, InferredBindings, PinMode, ResolvedImage,
    read_layout,
};
pub use inspect::{ApplySummary, UnitDifference, UnitSummary, diff_units, inspect_unit};
pub use ledger::{
    ApplyLedger, ApplyStatus, EntryKind, LedgerEntry, LedgerIdentity, LedgerPlace, MergeOutcome, StepRecord,
    StepStatus, UnitLedger, UnitTarget, merge_ledger,
};
pub use overlay::Overlay;
pub use plan::{
    ImageChange, PlanContext, PlanRisk, PlannedSecret, RiskKind, UNIT_DIGEST, UNIT_ENV, UNIT_OBJECT_SET,
    UNIT_OVERLAY, UNIT_VERIFIED, UnitPlan, plan_unit,
};
pub use proof::{ProvenRelease, SecretUse, UnitLoader, prove, prove_release};
pub use render::Hazard;
pub use replay::{RecordedApply, read_apply};
pub use resume::{abort_unit, resume_unit};
pub use rollback::{RollbackStatus, rollback_unit};
pub use schema::{environments_schema, image_map_schema, settings_schema};
pub use sign::{PublicKey, SigningKey, sign_unit};
pub use transport::{ARTIFACT_TYPE, RegistryImages, pull_unit, push_unit};
pub use verify::{
    CheckResult, CheckStatus, ExecProbe, VerifyBaseline, VerifyOptions, VerifyProbe, VerifyReport,
    VerifyRequest, run_checks, take_baseline,
};
