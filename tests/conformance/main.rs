//! The conformance suite of topics: each check is one function that knows its expectations, run against `memory:`, a
//! log in the process (`embedded:`), a booblik broker that this process serves on a port of its own (`booblik://`), and
//! a real Kafka, so that all give the same transcript (B-51).
//!
//! Kafka is found by `KAFKA_BOOTSTRAP`, which `make test` sets; without it the Kafka half fails and says so, and
//! `SKIP_KAFKA=1` leaves it out. What only a Kafka can be asked is in `on_kafka`, what only
//! booblik's log can be asked in `on_booblik`.
//!
//! Not on `embedded:` and `booblik://`, whose log knows no groups, so that nothing moves between members: the checks of
//! `groups` but `a_static_member_comes_back_as_itself`, and the second half of
//! `b30_a_seek_before_the_assignment_applies_to_it_and_to_no_later_one`. A shared group is refused there:
//! `on_booblik::a_shared_group_is_refused`. Topics are not created or deleted over the protocol, nor deleted in a log
//! that is open: `admin_creates_describes_and_deletes` expects that to be said.
//!
//! | id | covered by |
//! |---|---|
//! | B-01, B-02 | `b01_b02_a_pause_holds_while_a_member_joins_and_leaves`, `b01_a_shared_declaration_pauses_all_members_at_once` |
//! | B-04 | `b04_a_partition_that_comes_back_goes_on_where_the_other_member_was` |
//! | B-07 | `b07_b21_a_handler_slower_than_the_timeout_repeats_only_what_was_in_hand` |
//! | B-11 | `b11_a_quiet_topic_is_read_beside_a_busy_one` |
//! | B-12 | `b12_a_record_in_flight_holds_the_position_back` |
//! | B-14 | `b14_the_next_run_begins_behind_the_last_one` |
//! | B-15 (policy) | `on_kafka::b15_a_position_that_was_deleted_follows_the_policy`, `on_booblik::a_position_outside_the_log_follows_the_policy` |
//! | B-18 | `b18_nothing_is_committed_before_the_sinks_have_it` |
//! | B-21 | `b21_a_rebalance_waits_for_a_slow_handler`, `b07_b21_…` |
//! | B-22 (stop) | `b22_an_undecodable_record_stops_the_run_and_stays_the_next` |
//! | B-23 | `b23_null_and_empty_keys_and_values_differ`, `b23_tombstones_need_an_option` |
//! | B-24 | `b24_a_key_that_is_not_utf8_is_bytes_or_an_error_with_its_place` |
//! | B-28 | `b28_an_oversized_record_is_refused_and_the_next_one_goes_through`, `b28_a_record_larger_than_the_fetch_size_is_read` |
//! | B-30 | `b30_a_missing_topic_is_awaited_and_then_read_from_its_beginning`, `b30_a_seek_before_the_assignment_applies_to_it_and_to_no_later_one`, `on_kafka::b30_partitions_that_are_added_are_read_from_their_beginning`, `on_kafka::b30_an_unknown_topic_is_an_error_for_send_and_awaited_by_a_sink` |
//! | B-51 | every check: one expectation for all backends; `transcript::both_backends_give_the_same_transcript` compares word for word |
//! | TP-1, TP-2 | `a_wrong_setting_ends_the_run_at_its_start_and_names_the_key`: an unknown key is an error, later |
//! | TP-3, TP-6 | `a_value_that_cannot_be_encoded_names_the_topic`, `b28_…` |
//! | TP-4, TP-5, TP-7, TP-8, TP-9 | replaced: the idempotent producer retries below, an outage is back-pressure (`src/topic/kafka/tests/outages.rs`) |
//! | TP-10, TP-19 | `b22_…`, `auto_offset_reset_sets_the_start_and_error_refuses`: a failing source ends the run with its error |
//! | TP-11 | `seeks_move_to_the_beginning_the_end_an_offset_and_a_time`, `a_seek_outside_the_log_moves_nothing`, `admin_creates_describes_and_deletes` |
//! | TP-12 | `b30_a_seek_before_the_assignment_applies_to_it_and_to_no_later_one` |
//! | TP-13, TP-15 | `a_send_is_answered_by_the_place_of_the_record` |
//! | TP-14 | `a_dry_topic_writes_nothing` |
//! | TP-16, INT-1 | `what_is_produced_is_consumed_in_order` |
//! | TP-17, TP-18, TP-20 | replaced: a pause shows no sentinel; `b01_b02_…` |
//! | TP-21 | the end of a run is bounded: `src/topic/kafka/tests/outages.rs` |
//! | scenario 8 (reliability) | `a_seek_outside_the_log_moves_nothing` |

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

#[cfg(feature = "booblik")]
mod away;
mod bench;
#[cfg(feature = "booblik")]
mod full;
mod groups;
mod handlers;
#[cfg(feature = "booblik")]
mod on_booblik;
#[cfg(feature = "kafka")]
mod on_kafka;
mod positions;
mod records;
mod refusals;
#[cfg(all(feature = "booblik", feature = "log"))]
mod saying;
#[cfg(feature = "booblik")]
#[path = "../support/small.rs"]
#[expect(dead_code, reason = "what only other tests need")]
mod small;
#[cfg(feature = "rocksdb")]
mod tables;
#[cfg(feature = "kafka")]
mod transcript;

/// A test on this backend for each check.
macro_rules! checks {
    ($backend:ident $($area:ident: $($check:ident)*;)*) => {
        $($(
            #[tokio::test]
            async fn $check() -> slipstream::Result<()> {
                match super::bench::Bench::on(stringify!($backend)).await {
                    Some(bench) => super::$area::$check(bench).await,
                    None => Ok(()),
                }
            }
        )*)*
    };
}

/// What every backend answers to.
macro_rules! common {
    ($backend:ident) => {
        checks! {
            $backend
            records:
                what_is_produced_is_consumed_in_order
                order_is_kept_within_partitions_and_keys_choose_the_same_ones
                headers_keep_order_duplicates_and_nulls
                timestamps_are_kept_and_missing_ones_are_now
                b23_null_and_empty_keys_and_values_differ
                b23_tombstones_need_an_option
                b22_an_undecodable_record_stops_the_run_and_stays_the_next
                b24_a_key_that_is_not_utf8_is_bytes_or_an_error_with_its_place
                a_topic_takes_values_pairs_headers_and_messages
                a_send_is_answered_by_the_place_of_the_record
                b28_a_record_larger_than_the_fetch_size_is_read
                a_chosen_codec_reads_and_writes;
            positions:
                b14_the_next_run_begins_behind_the_last_one
                what_is_done_is_committed_while_running_and_survives_a_crash
                latest_is_committed_as_soon_as_it_is_resolved
                auto_offset_reset_sets_the_start_and_error_refuses
                seeks_move_to_the_beginning_the_end_an_offset_and_a_time
                a_seek_outside_the_log_moves_nothing
                b30_a_seek_before_the_assignment_applies_to_it_and_to_no_later_one
                a_replay_up_to_the_old_position_is_committed
                b12_a_record_in_flight_holds_the_position_back
                b18_nothing_is_committed_before_the_sinks_have_it
                a_broadcast_topic_is_read_whole_by_every_app;
            handlers:
                every_handler_of_a_topic_gets_every_record_in_order
                one_handler_that_fails_holds_the_position_of_both
                concurrency_keeps_the_order_of_each_key_and_commits_in_one_piece
                topics_in_a_row_pass_everything_on
                b11_a_quiet_topic_is_read_beside_a_busy_one;
            refusals:
                b28_an_oversized_record_is_refused_and_the_next_one_goes_through
                admin_creates_describes_and_deletes
                a_dry_topic_writes_nothing
                a_wrong_setting_ends_the_run_at_its_start_and_names_the_key
                a_secret_in_a_wrong_configuration_is_not_printed
                the_file_overrides_what_a_topic_declares
                one_declaration_on_two_brokers_is_refused_and_both_are_named
                b30_a_missing_topic_is_awaited_and_then_read_from_its_beginning
                a_value_that_cannot_be_encoded_names_the_topic;
            groups:
                a_static_member_comes_back_as_itself;
        }
    };
}

/// What only a broker with groups can be asked.
macro_rules! of_groups {
    ($backend:ident) => {
        checks! {
            $backend
            groups:
                two_members_share_the_partitions_and_each_record_is_handled_once
                b01_b02_a_pause_holds_while_a_member_joins_and_leaves
                b04_a_partition_that_comes_back_goes_on_where_the_other_member_was
                b01_a_shared_declaration_pauses_all_members_at_once
                b21_a_rebalance_waits_for_a_slow_handler
                b07_b21_a_handler_slower_than_the_timeout_repeats_only_what_was_in_hand;
        }
    };
}

/// Tables on a backend.
#[cfg(feature = "rocksdb")]
macro_rules! of_tables {
    ($backend:ident) => {
        checks! {
            $backend
            tables:
                a_table_is_the_fold_of_its_topic_across_restarts_and_a_crash
                rows_that_are_gone_are_rebuilt_and_say_nothing;
        }
    };
}

/// Tables whose topics an app, or an administrator, can replace.
#[cfg(feature = "rocksdb")]
macro_rules! of_replaced_logs {
    ($backend:ident) => {
        checks! {
            $backend
            tables:
                a_table_of_a_log_that_was_replaced_is_refused_or_built_anew;
        }
    };
}

mod memory {
    common!(memory);
    #[cfg(feature = "rocksdb")]
    of_tables!(memory);
    #[cfg(feature = "rocksdb")]
    of_replaced_logs!(memory);
    of_groups!(memory);
}

#[cfg(feature = "kafka")]
mod kafka {
    common!(kafka);
    #[cfg(feature = "rocksdb")]
    of_tables!(kafka);
    #[cfg(feature = "rocksdb")]
    of_replaced_logs!(kafka);
    of_groups!(kafka);
}

#[cfg(feature = "booblik")]
mod embedded {
    common!(embedded);
    #[cfg(feature = "rocksdb")]
    of_tables!(embedded);
    #[cfg(feature = "rocksdb")]
    of_replaced_logs!(embedded);
}

#[cfg(feature = "booblik")]
mod booblik {
    common!(booblik);
    #[cfg(feature = "rocksdb")]
    of_tables!(booblik);
}
