//! Behaviour of secrets, from references to values. Backends are strict servers of our own, one a module.
//!
//! Scenarios and the tests that play them. Names without a module of this directory are tests of the binary
//! (`crates/slipway/tests/it`); `conformance secrets` and `conformance vault` play with moto and a real Vault.
//!
//! | | test |
//! | --- | --- |
//! | X-01 built-in providers | `aws::the_users_environment_makes_a_provider_without_configuration`, `policy::providers_nobody_configured_need_the_policys_leave`; `conformance secrets`: `apply with --set`, exit 15 by `implicitProviders: false` |
//! | X-02 default provider | `secrets::the_users_own_file_holds_providers_too` |
//! | X-03 grammar | `references::references_print_in_their_canonical_form` (30), `references::wrong_references_say_what_and_how_to_mend_it` (34) |
//! | X-04 missing key | `vault::versions_of_engines_are_found_and_pinned_versions_read`, `files::a_missing_key_fails_with_the_names_and_never_a_value` |
//! | X-05 KV 1, 2, auto; pinned, deleted | `vault::versions_of_engines_are_found_and_pinned_versions_read` |
//! | X-06 one login a run | `vault::every_login_happens_once_for_many_nodes`, `vault::a_thousand_references_of_64_nodes_are_fifty_reads_and_one_login` |
//! | X-07 one read a path | `vault::ten_keys_of_one_path_are_one_read` |
//! | X-08 defaults of charts | `secret_sources::a_chart_whose_defaults_hold_a_reference_gets_no_secret` |
//! | X-09 no leak | `leak_scan`, `leak_sockets`, `leak_sinks`, `output`; programs: `secrets::notes_of_programs_are_masked` |
//! | X-10 both sides masked | `secret_sources::live_values_are_hidden_on_both_sides_and_changes_are_told_per_key` |
//! | X-11 plans without a backend | `secret_sources::an_apply_with_a_backend_down_fails_before_any_write` |
//! | X-12 release record | `secrets::an_apply_fetches_what_a_plan_only_names` |
//! | X-13 policy | `policy`, `secrets::exit_codes_tell_what_went_wrong`, `unit::a_promotion_takes_secrets_from_approved_providers_alone` |
//! | X-14 audit | `parallel::a_thousand_references_of_64_nodes_are_fifty_reads`, `files::every_value_is_known_to_the_redactor_and_audited`, `policy::an_audit_that_must_not_fail_stops_the_use`, `webhook` |
//! | X-15 programs | `exec` |
//! | X-16 many nodes at once | `parallel` |
//! | X-17 providers | `aws::parameters_are_read_in_batches_of_ten_with_versions_and_labels`, `gcp::names_versions_and_checksums_are_honoured`, `azure::a_challenge_of_a_foreign_resource_is_refused` |
//! | X-18 stand-ins | `secret_sources::a_secret_that_must_be_parsed_takes_a_stand_in` |
//! | X-19 untrusted repositories | `trust`, `secret_sources::an_untrusted_repository_gets_no_credential_and_runs_no_program` |
//!
//! Besides: credentials of AWS in `aws_credentials`, runs that are stopped in `interrupt`, the guide's examples in `guide`.

mod aws;
mod aws_credentials;
mod azure;
mod bad_input;
mod exec;
mod files;
mod gcp;
mod guide;
mod interrupt;
mod masking;
mod parallel;
mod policy;
mod references;
mod servers;
mod support;
mod trust;
mod vault;
mod webhook;
