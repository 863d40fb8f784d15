//! Policy gates, metric checks and change windows.
//!
//! | | behaviour | test |
//! | --- | --- | --- |
//! | B01 | a weekend gate opens as Monday begins | `instances::a_weekend_gate_opens_when_monday_begins` |
//! | B02 | soak time counts from the direct upstream | `instances::a_soak_gate_counts_from_the_direct_upstream` |
//! | B05, B06 | skips need a permission that holds | `checking::skips_need_a_permission_that_holds` |
//! | B07 | whatever goes wrong closes | `failing::each_row_of_the_table_closes_with_its_reason` |
//! | B08 | an old result counts as closed | `failing::an_old_result_counts_as_closed` |
//! | B09 | metrics and their absence | `metrics::a_metric_gate_follows_its_check`, `metrics::no_data_passes_or_fails_where_the_check_says_so` |
//! | B10 | overrides by scope, until they expire | `instances::an_override_opens_one_environment_until_it_expires` |
//! | B12 | a pause holds every gate | `instances::a_paused_pipeline_holds_every_gate` |
//! | B13 | change windows, zones, clocks set forward and back | `windows` |
//! | B14 | external answers, polled and pushed | `external` |
//! | B15 | a simulation says what the controller would | `checking::a_simulation_says_what_the_controller_would` |
//! | B17 | texts survive untouched | `instances::a_weekend_gate_opens_when_monday_begins` |
//! | B18 | rollbacks and soak gates | `checking::a_rollback_passes_a_soak_gate_that_lets_it`, `checking::checks_find_errors_and_traps` |
//!
//! Org gates that cannot be left out (B03, B04), gates added meanwhile (B11) and instances that are no templates (B16) are tested
//! with the translator and whole promotions.

mod checking;
mod external;
mod failing;
mod instances;
mod laws;
pub(crate) mod metrics;
mod reading;
mod support;
mod waiting;
mod windows;
pub(crate) mod world;
