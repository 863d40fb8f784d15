//! Behaviour of secrets, from references to values. Backends are strict servers of our own, one a module.
//!
//! | scenario | held by |
//! | --- | --- |
//! | a built-in type as provider, and the policy against it | `aws::the_users_environment_makes_a_provider_without_configuration`, `policy::providers_nobody_configured_need_the_policys_leave` |
//! | the default provider | `the_users_own_file_holds_providers_too` of the binary |
//! | the grammar | `references::references_print_in_their_canonical_form`, `references::wrong_references_say_what_and_how_to_mend_it` |
//! | a backend that is down | `an_apply_with_a_backend_down_fails_before_any_write` of the binary |
//! | a missing key fails | `files::a_missing_key_fails_with_the_names_and_never_a_value` |
//! | versions of engines and of secrets | `vault::versions_of_engines_are_found_and_pinned_versions_read` |
//! | one login a run | `vault::every_login_happens_once_for_many_nodes`, `vault::a_thousand_references_of_64_nodes_are_fifty_reads_and_one_login` |
//! | one read a path | `vault::ten_keys_of_one_path_are_one_read` |
//! | defaults of charts, both sides of a difference, plans without a backend, stand-ins | `secret_sources` of the binary |
//! | no leak anywhere | `leak_scan`, `leak_sockets`, `leak_sinks` and `panic` of the binary |
//! | the release record | `an_apply_fetches_what_a_plan_only_names` of the binary |
//! | policy | `policy::rules_decide_before_any_backend_is_asked`, `policy::approved_lists_and_literal_credentials_are_enforced` |
//! | audit | `files::every_value_is_known_to_the_redactor_and_audited`, `policy::an_audit_that_must_not_fail_stops_the_use` |
//! | programs | `exec` |
//! | many nodes at once | `parallel` |
//! | the matrix of providers | `aws::parameters_are_read_in_batches_of_ten_with_versions_and_labels`, `gcp::names_versions_and_checksums_are_honoured`, `azure::a_challenge_of_a_foreign_resource_is_refused` |
//! | credentials of AWS | `aws_credentials` |
//! | a run that is stopped | `interrupt`, `a_stopped_apply_gives_back_what_it_was_lent` of the binary |
//! | untrusted repositories | `trust`, `an_untrusted_repository_gets_no_credential_and_runs_no_program` of the binary |

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
