//! Steps against the sandbox and a forge with a real repository.
//!
//! | | behaviour | test |
//! | --- | --- | --- |
//! | A03 | an edit touches the lines it means | `flow::an_auto_environment_gets_one_commit_with_one_changed_line` |
//! | A08, A09 | images are told apart; values keep their style | `edits` |
//! | A10, A11 | configuration commits are merged | `edits` |
//! | A12 | rendered manifests have a branch of their own | `edits::a_rendered_branch_gets_manifests_and_loses_those_of_removed_objects` |
//! | A13 | nothing to change, nothing pushed | `flow::promoting_the_deployed_version_pushes_nothing_and_verifies` |
//! | A14, A15 | custom steps | `webhooks_out` |
//! | A16 | merged by the controller, with the head it pushed | `pulls` |
//! | B03 | org gates cannot be left out | `guards::a_step_without_an_org_gate_does_not_begin` |
//! | B12 | a pause holds what is in flight | `guards::a_pause_holds_a_step_and_its_deadline` |
//! | C01, C10 | superseded and deleted steps leave nothing behind | `guards` |
//! | D01 | killed after any change, exactly one commit and one pull request | `crashes` |
//! | D03 | many push to one branch | `races::ten_pipelines_and_a_person_push_to_one_branch` |
//! | D04 | a lost webhook is made up for | `pulls::a_merge_nobody_told_of_is_found_after_a_start_and_by_polling` |
//! | D05 | forged, repeated and early webhooks change nothing | `deliveries` |
//! | D06 | a server in trouble is waited for | `trouble` |
//! | D07 | a pull request that is not there yet | `pulls::a_pull_request_that_is_not_there_yet_is_waited_for` |
//! | D08 | closed by a person; another try opens it again | `pulls::a_closed_pull_request_fails_the_step_and_a_retry_opens_it_again` |
//! | D09 | conflicts are resolved unless people worked on the branch | `pulls` |
//! | D10 | a wiped cache changes nothing | `crashes::a_wiped_cache_changes_nothing` |

mod crashes;
pub(crate) mod deliveries;
mod edits;
mod flow;
mod guards;
mod pulls;
mod races;
mod trouble;
mod verify;
pub(crate) mod webhooks_out;
pub(crate) mod world;
