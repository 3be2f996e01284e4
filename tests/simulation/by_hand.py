"""Mutations that no kept history catches, and the histories by hand that do: tests of the translation, by name.

The moments in which these mutations do harm are too rare for a seed, or the harm is none that the invariants know: an
operator is told something else, or a client waits for longer than it has to.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from protocol_codecs import ErrorCode
from tests.simulation.mutations import Mutation
from tests.translation import test_several_processes as several
from tests.translation import test_stalled_connections as stalled
from tests.translation.admission import test_serving as serving
from tests.translation.apis import test_initial_rebalance as initial_rebalance
from tests.translation.apis import test_many_commits as many_commits
from tests.translation.classic_group import A_OWNS, CLASSIC
from tests.translation.conversion import test_convertibility as convertibility
from tests.translation.conversion import test_helper as helper
from tests.translation.conversion import test_last_consumer_member as last_consumer_member
from tests.translation.joining import test_join_preflight as join_preflight
from tests.translation.joining import test_resumption as resumption
from tests.translation.live_groups import A, B
from tests.translation.member_log import test_ends as ends
from tests.translation.member_log import test_group_records as group_records
from tests.translation.member_log import test_member_log as records
from tests.translation.member_log import test_seams as seams
from tests.translation.member_log.bench import SharedLog
from tests.translation.membership import test_static_members as static_races
from tests.translation.moving import test_downgrade as downgrade
from tests.translation.moving import test_held_return as held_return
from tests.translation.moving import test_in_place as in_place
from tests.translation.moving import test_moving_all_at_once as all_at_once
from tests.translation.moving import test_return_in_place as return_in_place
from tests.translation.moving import test_upgrade as upgrade
from tests.translation.rollout import test_gates as gates
from translation.settings import TranslatorSettings


class ByHand(NamedTuple):
    """A test that fails under the mutation of this name, and what it is called with."""

    test: Callable[..., None]
    arguments: Callable[[], tuple[object, ...]] = tuple

    @property
    def name(self) -> str:
        """The name of the test."""
        test = self.test.func if isinstance(self.test, partial) else self.test
        return test.__name__

    def play(self) -> None:
        """Run the test. Raises what it raises."""
        self.test(*self.arguments())


def _replicas(test: Callable[..., None]) -> ByHand:
    return ByHand(test, lambda: (SharedLog(),))


def _records(test: Callable[..., None]) -> ByHand:
    return ByHand(test, lambda: (records.Bench().ready(),))


BY_HAND: Mapping[str, ByHand] = {
    "wait_for_others_in_a_group_that_has_members": ByHand(
        initial_rebalance.test_nobody_waits_in_a_group_that_has_members
    ),
    "ask_once_for_each_connection": ByHand(
        stalled.test_connections_that_stall_never_get_the_turn_of_a_member_that_is_served_elsewhere
    ),
    "send_commits_of_two_epochs_side_by_side": ByHand(
        many_commits.test_a_commit_with_the_new_epoch_waits_for_those_with_the_old_one
    ),
    "send_a_refused_commit_again_behind_the_others": ByHand(
        many_commits.test_commits_that_the_broker_refuses_for_their_epoch_are_sent_again_in_their_order
    ),
    "join_beside_commits": ByHand(
        many_commits.test_a_join_group_on_another_connection_waits_for_the_commits_under_way
    ),
    "keep_alive_when_no_commit_is_under_way": ByHand(many_commits.test_a_keep_alive_waits_for_no_commit),
    "tell_members_whatever_the_gates_say": ByHand(
        gates.test_a_replica_that_is_alive_and_does_not_report_is_missing
    ),
    "do_without_the_reports_of_others": ByHand(
        group_records.test_a_replica_is_alive_as_long_as_it_probes_and_this_one_always_is
    ),
    "take_what_a_step_causes_for_harm": ByHand(gates.test_classic_members_rejoin_at_each_new_target),
    "leave_a_group_alone_for_ever": ByHand(
        all_at_once.test_a_group_that_not_all_have_left_in_time_is_left_alone_and_tried_again_less_and_less_often
    ),
    "convert_a_member_that_the_broker_has_otherwise": ByHand(
        in_place.test_a_member_that_the_broker_has_otherwise_is_not_converted, lambda: ((CLASSIC, 5, A_OWNS),)
    ),
    "convert_while_a_commit_is_under_way": ByHand(
        in_place.test_a_commit_that_is_under_way_on_another_connection_is_answered_before_the_group_is_converted
    ),
    "vote_before_the_last_is_converted": ByHand(
        in_place.test_a_converted_member_goes_on_with_its_generation_and_without_a_vote
    ),
    "leave_before_all_have_the_group_epoch": ByHand(
        helper.test_on_the_way_back_the_helper_waits_for_all_members, lambda: ({B: (CLASSIC, 3, (2, 3))},)
    ),
    "leave_by_itself_while_others_have_to_give_up": ByHand(
        last_consumer_member.test_a_client_that_leaves_by_itself_waits_for_nobody_and_a_helper_takes_its_place
    ),
    "answer_before_the_group_is_a_classic_one": ByHand(
        held_return.test_a_client_is_answered_when_its_group_is_a_classic_one
    ),
    "commit_with_the_generation_from_before": ByHand(
        held_return.test_a_commit_of_a_client_that_waits_counts, lambda: (7,)
    ),
    "leave_a_consumer_group_of_classic_members": ByHand(
        helper.test_a_consumer_group_of_classic_members_gets_a_helper_that_leaves
    ),
    "have_eager_clients_lose_their_partitions": ByHand(
        all_at_once.test_an_eager_client_gives_up_its_partitions_by_its_own_rules_and_keeps_its_id
    ),
    "forget_a_rebalance_that_was_announced": ByHand(
        in_place.test_a_rebalance_that_is_announced_when_the_member_is_to_be_converted_is_remembered
    ),
    "leave_a_partition_without_an_owner": ByHand(
        partial(
            helper.test_partitions_without_an_owner_have_the_group_epoch_moved_by_a_second_helper,
            targets={A: A_OWNS, B: (2, 3)},
            size=5,
        )
    ),
    "repeat_a_conversion_of_before": ByHand(
        in_place.test_of_several_processes_none_repeats_a_conversion_whose_answer_is_lost
    ),
    "go_back_as_the_last_without_a_helper": ByHand(
        return_in_place.test_a_helper_joins_before_the_last_member_goes_back
    ),
    "convert_without_what_it_owns": ByHand(
        in_place.test_a_member_is_converted_under_its_id_with_its_generation_and_all_its_partitions
    ),
    "convert_at_epoch_0": ByHand(
        in_place.test_a_member_is_converted_under_its_id_with_its_generation_and_all_its_partitions
    ),
    "convert_whatever_the_heartbeat_was_answered": ByHand(
        in_place.test_a_heartbeat_that_the_broker_does_not_accept_converts_nobody,
        lambda: (ErrorCode.REBALANCE_IN_PROGRESS,),
    ),
    "convert_for_whoever_names_the_member": ByHand(
        in_place.test_a_heartbeat_of_somebody_else_in_the_name_of_a_member_does_not_convert_it,
        lambda: ({"host": "/10.0.0.66"},),
    ),
    "convert_whatever_the_policy_says_by_now": ByHand(
        in_place.test_a_member_is_not_converted_when_something_changes_during_a_wait,
        lambda: ("the converted group", "another policy"),
    ),
    "convert_with_a_topic_outside_its_subscription": ByHand(
        in_place.test_a_member_with_a_topic_outside_its_subscription_stays_classic
    ),
    "convert_with_a_topic_that_it_may_not_describe": ByHand(
        in_place.test_a_topic_that_it_may_not_describe_and_has_nothing_of_is_left_out
    ),
    "convert_at_another_epoch_of_the_helper": ByHand(
        in_place.test_a_group_whose_epoch_is_not_the_generation_is_not_converted_now
    ),
    "rejoin_without_what_it_owns": ByHand(
        in_place.test_where_a_timer_of_the_broker_may_run_join_group_and_sync_group_are_sent_once_more
    ),
    "go_back_without_what_it_owns": ByHand(
        return_in_place.test_the_join_group_of_a_member_is_relayed_under_its_id_with_what_it_owns
    ),
    "a_told_heartbeat_is_no_life": ByHand(
        downgrade.test_back_to_observe_the_heartbeat_that_is_told_counts_as_life
    ),
    "trust_a_client_that_was_away": ByHand(
        several.test_a_client_that_hung_up_before_its_join_group_was_answered_may_have_been_elsewhere
    ),
    "leave_last_while_others_have_to_give_up": ByHand(
        last_consumer_member.test_of_two_that_leave_at_once_the_second_is_the_last
    ),
    "believe_that_a_group_is_neither_kind": ByHand(
        convertibility.test_a_client_that_lost_its_membership_while_it_waited_does_not_convert_the_group_in_a_rebalance
    ),
    "believe_any_newer_generation": ByHand(
        several.test_a_generation_that_the_broker_has_not_come_to_is_refused_and_changes_nothing
    ),
    "move_a_classic_member_with_partitions": ByHand(
        upgrade.test_a_classic_member_with_partitions_stays_classic_whatever_its_client_left_behind_before
    ),
    "look_for_a_client_where_a_late_call_came": ByHand(
        several.test_a_late_commit_does_not_tell_where_its_client_is
    ),
    "let_an_older_process_replace_the_newer_one": ByHand(
        static_races.test_a_process_that_has_a_member_id_already_replaces_nobody,
        lambda: (TranslatorSettings(),),
    ),
    "keep_an_id_that_an_older_join_group_has": ByHand(
        upgrade.test_to_translate_a_client_whose_older_join_group_may_still_arrive_is_given_another_id
    ),
    "keep_an_id_that_another_process_may_be_ending": ByHand(
        partial(
            several.test_a_classic_member_that_another_process_may_be_ending_joins_under_another_id,
            another_id=True,
        ),
        lambda: (TranslatorSettings(sole_process=False), {"version": 9}),
    ),
    "believe_what_was_said_before_the_last_member_left": ByHand(
        join_preflight.test_what_the_broker_said_of_a_group_before_its_last_member_left_does_not_count,
        lambda: (True,),
    ),
    "take_a_group_that_was_left_for_a_consumer_group": ByHand(
        last_consumer_member.test_a_client_that_is_to_stay_after_all_ends_its_membership_when_all_have_the_group_epoch
    ),
    "forget_a_group_by_its_name": ByHand(
        upgrade.test_the_end_of_a_membership_that_was_left_behind_twice_does_not_forget_who_has_joined_since
    ),
    "forget_a_group_that_gives_up_partitions": ByHand(
        upgrade.test_since_when_a_group_gives_partitions_up_is_remembered_while_nobody_of_it_is_here
    ),
    "trust_the_log_before_a_probe_is_read_back": _records(
        records.test_it_is_back_when_the_last_probe_is_read_back
    ),
    "serve_on_an_unconfirmed_connection": _replicas(
        serving.test_a_heartbeat_on_a_new_connection_waits_until_its_claim_is_read_back
    ),
    "serve_before_the_record_is_read_back": _replicas(
        serving.test_of_two_replicas_that_claim_at_once_one_serves
    ),
    "never_lapse": _records(records.test_a_confirmed_connection_lapses_after_half_a_session_of_silence),
    "wait_for_what_was_skipped": _records(
        records.test_a_record_that_is_skipped_when_it_is_read_is_given_up_once_a_later_probe_is_read
    ),
    "confirm_claims_that_came_after_the_write": _records(
        records.test_a_claim_that_came_after_the_record_was_written_is_not_settled_by_it
    ),
    "confirm_as_of_the_reading": _records(
        records.test_a_connection_whose_call_was_answered_meanwhile_is_confirmed_all_the_same
    ),
    "keep_connections_confirmed_while_the_end_is_written": _records(
        records.test_a_call_while_expiring_is_on_its_way_waits_and_is_gone
    ),
    "expire_who_came_back": _records(records.test_a_client_that_comes_back_revokes_its_expiry),
    "serve_a_dead_id": _replicas(
        ends.test_a_heartbeat_under_a_dead_id_is_told_so_after_the_end_was_made_sure
    ),
    "expire_before_all_replicas_write_the_log": _replicas(
        ends.test_while_not_every_replica_writes_the_log_the_broker_ends_silent_clients
    ),
    "serve_whom_nobody_has_confirmed_while_away": _replicas(
        serving.test_while_the_log_is_away_who_is_confirmed_is_served_and_nobody_else
    ),
    "refuse_everybody_while_away": _replicas(
        serving.test_while_the_log_is_away_who_is_confirmed_is_served_and_nobody_else
    ),
    "forget_a_late_served": _replicas(
        seams.test_a_member_whose_call_is_over_when_its_claim_counts_is_not_renewed_in_the_log
    ),
    "renew_what_is_not_served_here": _replicas(
        serving.test_a_membership_that_is_forgotten_here_is_not_renewed_in_the_log
    ),
    "keep_the_generation_to_oneself": _replicas(
        ends.test_a_commit_with_a_generation_of_before_the_member_joined_elsewhere_is_refused
    ),
    "let_anybody_fill_the_log": ByHand(
        records.test_ids_that_are_not_known_are_not_claimed_in_a_group_with_too_many_dead_ones
    ),
    "take_a_used_id_for_a_new_one": _replicas(
        seams.test_an_id_under_which_a_client_has_joined_is_not_taken_for_new_when_the_log_is_lost
    ),
    "keep_a_connection_that_is_closed": _replicas(seams.test_a_connection_that_is_lost_confirms_nothing),
    "speak_for_members_of_others": _replicas(
        seams.test_an_owned_list_waits_until_a_log_that_was_lost_is_read_again
    ),
    "never_give_up_on_a_client": _replicas(
        serving.test_a_client_that_nobody_can_serve_for_the_brokers_session_joins_anew
    ),
    "tell_whose_member_was_taken_that_it_is_gone": _replicas(
        serving.test_a_heartbeat_under_way_when_another_replica_takes_the_member_is_to_be_tried_again
    ),
    "adopt_with_timeouts_of_ones_own": _replicas(
        serving.test_an_adopted_member_has_the_timeouts_of_its_join_group_elsewhere
    ),
    "do_not_write_what_began_under_a_classic_id": _replicas(
        serving.test_an_id_under_which_a_membership_has_begun_since_is_not_ended_when_the_log_is_back
    ),
    "commit_elsewhere_with_any_generation": _replicas(
        ends.test_a_commit_at_another_replica_with_a_generation_to_come_is_refused
    ),
    "keep_a_silent_client_alive": _replicas(
        seams.test_a_silent_client_is_not_kept_alive_when_its_group_changes_while_the_log_is_away
    ),
    "write_an_end_that_the_broker_has_not_confirmed": _replicas(
        ends.test_an_end_that_the_broker_has_not_confirmed_is_not_written
    ),
    "leave_a_dead_member_to_the_broker": _replicas(
        ends.test_a_heartbeat_under_a_dead_id_is_told_so_after_the_end_was_made_sure
    ),
    "go_on_with_calls_of_a_dead_id": _replicas(
        ends.test_a_heartbeat_that_the_broker_answers_when_the_id_is_dead_is_told_so
    ),
    "leave_the_others_to_their_clients": _replicas(
        ends.test_when_a_silent_client_is_removed_the_members_at_other_replicas_are_heartbeated
    ),
    "tell_an_older_process_that_its_id_is_dead": _replicas(
        ends.test_a_commit_under_a_dead_id_whose_instance_id_a_newer_process_has_is_fenced
    ),
    "move_back_without_the_log": _replicas(
        ends.test_a_client_that_is_not_taken_back_in_place_leaves_when_its_id_is_dead
    ),
    "relay_under_any_id": _replicas(
        ends.test_a_join_group_is_relayed_when_the_log_has_its_id_as_a_classic_one
    ),
    "relay_for_ever": _replicas(
        ends.test_a_classic_member_with_an_id_of_a_replica_moves_when_the_policy_says_so_again
    ),
    "go_on_with_another_generation": _replicas(
        resumption.test_a_client_with_another_generation_than_the_logs_joins_again
    ),
    "go_on_while_something_is_pending": ByHand(
        partial(
            resumption.test_what_the_broker_describes_otherwise_costs_a_rejoin, differs={"group_epoch": 2}
        ),
        lambda: (SharedLog(),),
    ),
    "go_on_with_another_assignment": ByHand(
        partial(
            resumption.test_what_the_broker_describes_otherwise_costs_a_rejoin, differs={"partitions": (0,)}
        ),
        lambda: (SharedLog(),),
    ),
    "go_on_without_a_heartbeat_first": ByHand(
        partial(
            resumption.test_a_heartbeat_at_the_epoch_of_the_log_that_changes_something_costs_a_rejoin,
            epoch=2,
            code=ErrorCode.NONE,
            assigned={},
        ),
        lambda: (SharedLog(),),
    ),
    "write_down_who_has_to_give_something_up": _replicas(
        resumption.test_a_member_that_is_to_give_something_up_has_no_snapshot
    ),
}


def fails_by_hand(mutation: Mutation) -> bool:
    """Whether the test for this mutation passes on the real code and fails under it."""
    by_hand = BY_HAND[mutation.__name__]
    by_hand.play()
    with mutation():
        try:
            by_hand.play()
        except (AssertionError, AttributeError, KeyError):
            return True
    return False
