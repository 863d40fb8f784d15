//! The Graph controller against the sandbox, with a clock that is moved by hand.
//!
//! The micro-tests every Graph engine has to pass:
//!
//! | | behaviour | test |
//! | --- | --- | --- |
//! | G01 | a chain opens one output gate at a time | `gates::a_chain_opens_one_output_gate_at_a_time` |
//! | G02 | a gate that closes leaves what it let through | `gates::a_gate_that_closes_leaves_dependents_as_they_are` |
//! | G02b | also after a restart | `gates::a_closed_gate_survives_a_restart` |
//! | G03 | a missing object is waited for | `reads::a_missing_object_is_read_as_soon_as_it_exists` |
//! | G04 | fields nobody reads cause no writes | `changes::a_field_nobody_reads_causes_no_write` |
//! | G05 | exclusion removes dependents first | `removal::exclusion_removes_an_object_after_its_dependents` |
//! | G06 | freshness ends by time alone | `timers::a_freshness_clause_ends_by_time_alone` |
//! | G07 | a crash between apply and status loses nothing | `changes::a_crash_between_apply_and_status_loses_nothing` |
//! | G08 | a broken spec leaves the last revision working | `revisions::a_spec_that_does_not_compile_leaves_the_last_one_working` |
//! | G09 | teardown keeps the order and ends last | `removal::teardown_waits_for_finalizers_and_lets_go_last` |
//! | G10 | `$${x}` passes through | `reads::an_escaped_expression_passes_through` |
//! | G11 | the second Graph to make an object conflicts | `ownership::the_second_graph_to_make_an_object_conflicts` |
//! | G12 | status writers do not block teardown | `removal::writers_of_status_do_not_block_teardown` |
//! | G13 | a template with an identity alone is read | `reads::a_template_with_an_identity_alone_is_never_written_or_deleted` |

mod changes;
mod compile;
mod definitions;
mod gates;
mod loops;
mod ownership;
mod reads;
mod removal;
mod revisions;
mod timers;
mod world;
