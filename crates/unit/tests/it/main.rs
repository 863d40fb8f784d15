//! Release units as their users meet them: bundled, opened, applied, rolled out and looked at.
//!
//! | scenario | tests |
//! | --- | --- |
//! | U-01 reproducible digest | `sealed::bundles_of_the_same_inputs_have_the_same_digest` |
//! | U-02 tampering | `opened::changes_of_rows_schema_and_ledger_are_named`, `opened::other_files_are_refused_with_what_they_are`, `tampered::a_thousand_random_changes_are_found`, `killed::*` |
//! | U-03 apply is the bundle | `applies::what_was_bundled_is_applied_whatever_became_of_the_source` |
//! | U-04 secrets | `sealed::units_hold_references_and_never_secrets`, `applies::what_was_bundled_is_applied_whatever_became_of_the_source`; the leak scan of the binary |
//! | U-05 nondeterminism | `sealed::what_differs_at_every_rendering_is_refused_or_listed`, `sealed::objects_named_by_chance_are_refused_even_where_fields_are_allowed` |
//! | U-06 injection | `images::*`, `pinned::every_tag_is_pinned_where_that_is_asked_for`; over public charts: `cargo xtask conformance unit-images` |
//! | U-07 promotion | `applies::a_promotion_needs_a_verified_apply_and_changes_only_its_slots`, `applies::a_cluster_tells_of_a_verified_unit_without_its_ledger` |
//! | U-08 verification | `applies::a_pod_on_another_digest_fails_the_verification`, `applies::a_crash_loop_after_the_rollout_fails_with_diagnostics`, `pinned::a_pod_may_run_the_manifest_of_its_platform`, `applies::commands_are_probes_that_run_as_jobs_and_leave_nothing` |
//! | U-09 canary | `strategy::canary::*`, `strategy::traffic::*` |
//! | U-10 blue-green | `strategy::bluegreen::*` |
//! | U-11 policy | `applies::a_policy_denies_before_anything_is_written`; every rule: the tests of `policy` |
//! | U-12 replay | `applies::a_failed_apply_is_recorded_and_replayed_without_a_cluster` |
//! | U-13 export | `exports::*` |
//! | U-14 crash in a rollout | `strategy::kills::*`, `killed::*` |
//!
//! Registries (push, pull, tags of a server) are met by the tests of the binary, `unit::*`; all of it on real programs by
//! `cargo xtask conformance unit`.

mod applies;
mod exports;
mod images;
mod killed;
mod opened;
mod pinned;
mod sealed;
mod strategy;
mod support;
mod tampered;
