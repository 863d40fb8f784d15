//! Promotion against the sandbox, with a clock that is moved by hand.
//!
//! Scenarios and the tests that play them. `promotion::` tests are whole promotions with a controller; the others look at one part.
//!
//! | | test |
//! | --- | --- |
//! | A01 | `promotion::flow::a_version_goes_from_a_bundle_to_production` |
//! | A02 | `promotion::flow::a_step_does_not_exist_before_its_upstream_is_verified` |
//! | A03 | `promotion::files::a_promotion_changes_the_line_with_the_tag_and_no_other`, `steps::flow` |
//! | A04 | `promotion::flow::environments_fan_out_and_in`, `steps::flow::two_environments_do_not_contain_each_other` |
//! | A05 | `promotion::admission::a_target_ends_the_way` |
//! | A06 | `promotion::admission::a_bundle_that_cannot_be_promoted_fails_until_its_pipeline_changes`, `promotion::admission::a_pipeline_that_leads_nowhere_fails_its_bundles_with_the_reason`, `translate::what_cannot_be_translated_has_a_reason` |
//! | A07 | `translate::odd_names_give_distinct_nodes_that_compile` |
//! | A08 | `promotion::files::images_that_share_their_last_word_are_promoted_apart` |
//! | A09 | `promotion::files::values_of_two_images_are_promoted_and_keep_their_comments` |
//! | A10 | `promotion::files::configuration_is_picked_or_copied_into_environments` |
//! | A11 | `promotion::files::a_mixed_bundle_is_one_commit_in_each_environment` |
//! | A12 | `promotion::files::a_rendered_environment_is_promoted_to_a_branch_of_its_own` |
//! | A13 | `promotion::flow::a_version_that_is_there_already_is_verified_without_a_commit` |
//! | A14 | `promotion::custom::a_custom_step_in_trouble_is_asked_three_times`, `promotion::custom::a_custom_step_that_says_no_ends_the_bundle` |
//! | A15 | `promotion::custom::a_step_after_the_merge_runs_before_the_next_environment` |
//! | A16 | `promotion::flow::a_pull_request_for_the_record_is_merged_by_the_controller`, `steps::pulls::an_automatic_merge_takes_the_head_it_pushed_and_no_other` |
//! | B01 | `promotion::flow::a_weekend_gate_holds_production_until_monday` |
//! | B02 | `promotion::gates::a_soak_gate_counts_from_the_environment_directly_before`, `gate::instances::a_soak_gate_counts_from_the_direct_upstream` |
//! | B03 | `promotion::bypass`, `steps::guards::a_step_without_an_org_gate_does_not_begin` |
//! | B04 | `translate::gates_are_trusted_by_where_they_stand`, `gate::checking::skips_need_a_permission_that_holds` |
//! | B05, B06 | `promotion::admission::a_skip_needs_permission_where_an_org_gate_applies` |
//! | B07 | `gate::failing::each_row_of_the_table_closes_with_its_reason`, `gate::checking::checks_find_errors_and_traps` |
//! | B08 | `promotion::flow::a_gate_that_nobody_evaluates_any_more_opens_nothing`, `gate::failing::an_old_result_counts_as_closed`; kro: the freshness clause flips by time alone |
//! | B09 | `promotion::gates::a_metric_gate_follows_its_measurements_and_their_absence`, `gate::metrics::a_metric_gate_follows_its_check`, `gate::metrics::no_data_passes_or_fails_where_the_check_says_so` |
//! | B10 | `promotion::gates::an_override_opens_production_until_it_expires_and_is_told_in_the_pull_request`, `gate::instances::an_override_opens_one_environment_until_it_expires` |
//! | B11 | `promotion::upkeep::a_gate_that_came_later_binds_the_next_bundle` |
//! | B12 | `promotion::upkeep::a_pause_holds_what_is_in_flight`, `steps::guards::a_pause_holds_a_step_and_its_deadline` |
//! | B13 | `promotion::gates::change_windows_hold_production_by_the_clocks_of_their_zone`, `gate::windows` |
//! | B14 | `promotion::gates::gates_others_decide_open_by_their_answer_while_it_counts`, `gate::external` |
//! | B15 | `promotion::gates::a_simulation_says_what_comes_true`, `gate::checking::a_simulation_says_what_the_controller_would` |
//! | B16 | `promotion::upkeep::a_gate_that_came_later_binds_the_next_bundle` |
//! | B17 | `translate::texts_with_expressions_in_them_pass_untouched` |
//! | B18 | `gate::checking::a_rollback_passes_a_soak_gate_that_lets_it` |
//! | C01 | `promotion::lifecycle::a_newer_bundle_supersedes_one_that_waits` |
//! | C02 | `promotion::lifecycle::a_pinned_bundle_is_not_superseded` |
//! | C03 | `promotion::lifecycle::a_bundle_with_a_narrower_target_supersedes_nothing`, `promotion::lifecycle::a_bundle_of_configuration_supersedes_no_version` |
//! | C04 | `promotion::lifecycle::a_failed_version_is_taken_back`, `promotion::lifecycle::what_failed_is_taken_back_while_the_rest_goes_on`, `promotion::health::a_rollback_that_fails_ends_there` |
//! | C05 | `promotion::health::a_person_takes_production_back`, `rollback::a_person_goes_back_to_the_version_before_or_to_one_they_name` |
//! | C06 | `promotion::health::an_emergency_rollback_stops_at_an_org_gate`, `promotion::health::an_emergency_rollback_passes_a_pinned_version_that_waits_for_its_merge` |
//! | C07 | `promotion::lifecycle::a_failed_version_is_taken_back`, `rollback::a_version_that_was_taken_back_does_not_return_unless_it_is_forced` |
//! | C08 | `promotion::lifecycle::the_oldest_bundles_go_beyond_the_limit` |
//! | C09 | `promotion::health::a_bake_survives_a_restart_and_begins_anew_after_an_alarm`, `promotion::health::an_alarm_ends_a_strict_bake_without_a_rollback_where_that_is_wanted` |
//! | C10 | `promotion::lifecycle::a_deleted_bundle_closes_its_pull_request`, `promotion::lifecycle::a_namespace_is_deleted_with_what_is_in_flight` |
//! | D01 | `steps::crashes`; after every change with `SLIPWAY_KILL_POINTS=all` |
//! | D02 | `promotion::upkeep::two_controllers_at_once_do_everything_once` |
//! | D03 | `promotion::trouble::ten_pipelines_and_a_person_share_a_branch`, `steps::races::ten_pipelines_and_a_person_push_to_one_branch` |
//! | D04 | `promotion::upkeep::a_start_looks_at_open_pull_requests_at_once`, `steps::pulls::a_merge_nobody_told_of_is_found_after_a_start_and_by_polling` |
//! | D05 | `promotion::trouble::webhooks_that_are_not_true_change_nothing`, `steps::deliveries`; each provider's scheme: tests of `scm` |
//! | D06 | `promotion::trouble::a_server_that_fails_is_waited_for`, `promotion::trouble::refused_credentials_wait_for_a_new_secret`, `steps::trouble` |
//! | D07 | `promotion::trouble::a_pull_request_that_is_not_shown_yet_is_waited_for`, `steps::pulls::a_pull_request_that_is_not_there_yet_is_waited_for` |
//! | D08 | `promotion::trouble::a_bundle_goes_on_once_its_failed_step_is_tried_again`, `steps::pulls::a_closed_pull_request_fails_the_step_and_a_retry_opens_it_again` |
//! | D09 | `promotion::trouble::a_conflict_with_the_base_is_resolved_in_the_same_pull_request`, `promotion::trouble::a_conflict_on_a_branch_of_people_is_told_and_left_alone`, `steps::pulls::a_conflict_is_resolved_by_rebuilding_the_branch`, `steps::pulls::a_conflict_on_a_branch_people_worked_on_is_left_to_them` |
//! | D10 | `promotion::trouble::a_cache_that_vanishes_between_environments_changes_nothing`, `promotion::trouble::a_full_disk_is_named_and_waited_for`, `steps::crashes::a_wiped_cache_changes_nothing` |
//! | D11 | `promotion::lifecycle::a_graph_deleted_by_hand_is_made_again` |
//! | D12 | `promotion::lifecycle::an_edited_pipeline_leaves_running_bundles_alone` |
//! | D13 | `promotion::flow::verified_bundles_cost_no_writes_once_their_gates_are_old` |
//! | D14 | kro: teardown in reverse order with statuses of others |
//! | E01 | `health::workloads::a_deployment_that_is_healthy_on_the_old_image_proves_nothing`, `promotion::health` |
//! | E02 | `promotion::tools::argo_cd_proves_a_version_by_its_revision`, `health::gitops::an_application_at_the_old_revision_is_waited_for`, `health::gitops::a_later_commit_proves_the_change_it_contains` |
//! | E03 | `promotion::tools::flux_proves_a_version_by_its_revision`, `health::gitops::a_kustomization_proves_its_revision_in_both_forms`, `health::gitops::a_stalled_kustomization_fails_and_a_stuck_one_waits` |
//! | E04 | `promotion::tools::the_tool_of_an_environment_is_found_unless_it_is_named`, `health::gitops::the_tool_that_knows_the_environment_is_found`, `health::gitops::an_application_that_stays_missing_gives_way_to_the_workload` |
//! | E05 | `health::delivery`, `promotion::health::an_aborted_canary_is_answered_with_a_rollback` |
//! | E06 | `promotion::tools::a_version_is_proven_in_another_cluster`, `health::remote` |
//! | E07 | `promotion::tools::every_selected_workload_must_be_well`, `health::workloads::every_selected_deployment_must_be_healthy_and_one_must_prove_the_change` |
//! | E08 | `promotion::health::a_restart_does_not_extend_a_health_check` |
//! | F01 | controller: `api` |
//! | F02 | `view::written::the_few_lines_become_the_documented_pipeline`, `view::actions::the_printed_graph_of_a_pipeline_promotes_when_a_bundle_names_it` |
//! | F03, F04 | `view::reasons` |
//! | F06 | controller: `operation::a_webhook_to_a_standby_moves_a_promotion_and_figures_tell_of_it` |
//! | F07, F08 | controller: `chart::the_chart_installs_and_its_roles_and_policies_hold` |
//! | F09 | controller: `operation::no_token_or_key_leaves_the_process`; slipway: `leaks` |
//! | F10 | controller: `kinds::a_new_version_in_a_registry_becomes_one_bundle`, `kinds::only_commits_that_change_the_path_become_bundles` |
//! | F11 | controller: `agent::an_agent_carries_out_its_shard_and_may_not_write_bundles` |
//! | F12 | scm: `limits::an_app_trades_its_key_for_tokens_and_renews_them_in_time` |
//! | F13 | scm: `contract` |
//! | F14 | controller: `kinds::a_hook_tells_each_event_once` |
//! | F15 | controller: `operation::the_audit_trail_is_one_chain_that_shows_tampering` |
//! | F16 | `promotion::groups` |
//! | F17 | `promotion::upkeep::an_edit_by_hand_is_drift` |
//! | F18 | `view::actions::plain_git_is_promoted_by_approving_the_bundle` |
//! | G01–G13 | tests of `kro` |
//!
//! Besides: Events, drift and orphaned pull requests in `promotion::upkeep`.

mod definitions;
mod effects;
mod fixtures;
mod forge;
mod gate;
mod health;
mod promotion;
mod rollback;
mod steps;
mod translate;
mod view;
