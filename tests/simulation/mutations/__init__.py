"""Deliberate breakages of the translation, each of which the simulation has to notice.

A mutation is a context manager that breaks the real code while it is open. The first line of its docstring says what
the broken code does; the table in docs/evidence/simulation.md is made of these lines, in the order of ``MUTATIONS``.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from tests.simulation.mutations import (
    access,
    commits,
    gates,
    generations,
    in_place,
    instance_ids,
    member_log,
    moves,
    partitions,
    replicas,
    resumption,
    sessions,
    steps,
)

Mutation = Callable[[], AbstractContextManager[Any]]

OLD_STATE_MUTATIONS: tuple[Mutation, ...] = (instance_ids.take_a_refusal_for_a_release,)
"""Those that only histories with what is out of date notice (``--old-state``)."""

BUSY_MUTATIONS: tuple[Mutation, ...] = (
    commits.send_commits_of_two_epochs_side_by_side,
    commits.send_a_refused_commit_again_behind_the_others,
    commits.join_beside_commits,
    commits.keep_alive_when_no_commit_is_under_way,
    commits.heartbeat_whoever_has_the_turn,
)
"""Those of clients that commit all the time (``--busy``)."""

STEP_FLEET_MUTATIONS: tuple[Mutation, ...] = (
    steps.take_a_slot_without_reading_it_back,
    steps.count_for_oneself_while_the_log_is_away,
    steps.write_slots_while_the_log_is_away,
)
"""Those that histories of several replicas with steps notice."""

GATE_FLEET_MUTATIONS: tuple[Mutation, ...] = (gates.do_without_the_reports_of_others,)
"""Those that histories of several replicas with gates notice."""

GATE_MUTATIONS: tuple[Mutation, ...] = (
    gates.never_abort,
    gates.tell_members_whatever_the_gates_say,
    gates.never_look_at_other_groups,
    gates.leave_the_members_of_an_aborted_move_where_they_are,
    gates.take_what_a_step_causes_for_harm,
    *GATE_FLEET_MUTATIONS,
)
"""Those that only histories of moves with gates notice (``--steps --gates``)."""

STEP_MUTATIONS: tuple[Mutation, ...] = (
    steps.let_newcomers_in_without_a_slot,
    steps.give_out_more_slots_than_the_step_has,
    steps.do_not_count_members_without_a_slot,
    steps.give_a_slot_to_somebody_else_while_its_member_joins,
    steps.convert_a_group_again_that_its_last_translated_member_has_left,
    steps.begin_the_next_step_at_once,
    steps.never_begin_the_next_step,
    steps.keep_the_slots_of_members_that_are_gone,
    steps.take_no_notice_of_a_rollback,
    steps.begin_a_membership_after_a_rollback,
    steps.begin_a_step_without_its_approval,
    steps.keep_a_group_rolled_back_for_ever,
    *GATE_MUTATIONS,
    *STEP_FLEET_MUTATIONS,
)
"""Those that only histories with steps notice (``--steps``)."""

FLEET_MUTATIONS: tuple[Mutation, ...] = (
    member_log.let_whatever_is_read_count,
    member_log.trust_the_log_before_a_probe_is_read_back,
    member_log.serve_on_an_unconfirmed_connection,
    member_log.serve_before_the_record_is_read_back,
    member_log.never_lapse,
    member_log.wait_for_what_was_skipped,
    member_log.confirm_claims_that_came_after_the_write,
    member_log.confirm_as_of_the_reading,
    member_log.keep_connections_confirmed_while_the_end_is_written,
    member_log.expire_at_once,
    member_log.expire_what_was_lost,
    member_log.expire_who_came_back,
    member_log.serve_a_dead_id,
    member_log.expire_before_all_replicas_write_the_log,
    member_log.write_before_the_first_is_read_back,
    member_log.write_while_away,
    member_log.serve_whom_nobody_has_confirmed_while_away,
    member_log.refuse_everybody_while_away,
    member_log.forget_a_late_served,
    member_log.renew_what_is_not_served_here,
    member_log.keep_the_generation_to_oneself,
    member_log.end_what_has_begun_anew,
    member_log.let_anybody_fill_the_log,
    replicas.go_by_the_rules_of_the_only_process,
    replicas.take_a_used_id_for_a_new_one,
    replicas.claim_ids_that_nobody_has,
    replicas.keep_a_connection_that_is_closed,
    replicas.speak_for_members_of_others,
    replicas.begin_under_any_id,
    replicas.tell_a_client_that_was_not_settled_to_join_anew,
    replicas.never_give_up_on_a_client,
    replicas.tell_whose_member_was_taken_that_it_is_gone,
    replicas.adopt_with_timeouts_of_ones_own,
    replicas.do_not_write_what_began_under_a_classic_id,
    replicas.keep_a_classic_member_that_another_serves,
    replicas.let_a_commit_take_a_member_over,
    replicas.commit_elsewhere_with_any_generation,
    replicas.keep_a_silent_client_alive,
    replicas.write_an_end_that_the_broker_has_not_confirmed,
    replicas.leave_a_dead_member_to_the_broker,
    replicas.go_on_with_calls_of_a_dead_id,
    replicas.leave_the_others_to_their_clients,
    replicas.tell_an_older_process_that_its_id_is_dead,
    replicas.move_back_without_the_log,
    replicas.relay_under_any_id,
    replicas.relay_for_ever,
    resumption.go_on_with_another_generation,
    resumption.go_on_while_something_is_pending,
    resumption.go_on_with_another_assignment,
    resumption.go_on_without_a_heartbeat_first,
    resumption.write_down_who_has_to_give_something_up,
    *OLD_STATE_MUTATIONS,
    *STEP_FLEET_MUTATIONS,
    *GATE_FLEET_MUTATIONS,
)
"""Those of the member log: histories of several replicas that share one have to notice them."""

MUTATIONS: tuple[Mutation, ...] = (
    partitions.acknowledge_early,
    partitions.give_up_while_join_group_waits,
    partitions.wait_for_others_in_a_group_that_has_members,
    generations.skip_the_generation_check,
    generations.forget_the_previous_generation,
    partitions.hand_out_withheld_partitions,
    partitions.ignore_a_lost_answer,
    sessions.leave_without_waiting_for_its_turn,
    partitions.ignore_the_claim,
    partitions.forget_what_is_withheld,
    sessions.no_keep_alive,
    sessions.no_suspended_session,
    partitions.adopt_with_the_described_assignment,
    partitions.rejoin_at_every_epoch,
    partitions.never_tell,
    sessions.trust_to_be_the_only_process,
    instance_ids.do_not_replace_static_members,
    sessions.let_a_late_join_group_in,
    sessions.a_told_heartbeat_is_no_life,
    moves.convert_in_the_middle_of_a_cooperative_rebalance,
    sessions.trust_a_client_that_was_away,
    sessions.count_a_join_group_that_nobody_waits_for,
    generations.remember_one_answered_generation,
    generations.look_for_a_client_where_a_late_call_came,
    partitions.keep_a_changed_assignor,
    instance_ids.let_an_older_process_replace_the_newer_one,
    instance_ids.let_the_older_process_have_its_instance_id_back,
    sessions.take_a_late_heartbeat_for_its_client,
    moves.leave_last_while_others_have_to_give_up,
    moves.leave_by_itself_while_others_have_to_give_up,
    moves.keep_an_id_that_an_older_join_group_has,
    moves.keep_an_id_that_another_process_may_be_ending,
    sessions.take_the_end_of_an_older_connection_for_that_of_its_client,
    generations.believe_any_newer_generation,
    moves.believe_that_a_group_is_neither_kind,
    moves.believe_what_was_said_before_the_last_member_left,
    moves.take_a_group_that_was_left_for_a_consumer_group,
    moves.forget_a_group_by_its_name,
    moves.forget_a_group_that_gives_up_partitions,
    moves.join_a_classic_group_for_a_client_that_has_gone,
    moves.move_a_classic_member_with_partitions,
    moves.leave_a_group_alone_for_ever,
    in_place.convert_a_member_that_the_broker_has_otherwise,
    in_place.convert_while_a_commit_is_under_way,
    in_place.vote_before_the_last_is_converted,
    in_place.leave_before_all_have_the_group_epoch,
    in_place.answer_before_the_group_is_a_classic_one,
    in_place.commit_with_the_generation_from_before,
    in_place.leave_a_consumer_group_of_classic_members,
    in_place.have_eager_clients_lose_their_partitions,
    in_place.forget_a_rebalance_that_was_announced,
    in_place.leave_a_partition_without_an_owner,
    in_place.repeat_a_conversion_of_before,
    in_place.go_back_as_the_last_without_a_helper,
    in_place.convert_without_what_it_owns,
    in_place.convert_at_epoch_0,
    in_place.convert_whatever_the_heartbeat_was_answered,
    in_place.convert_for_whoever_names_the_member,
    in_place.convert_whatever_the_policy_says_by_now,
    in_place.convert_with_a_topic_outside_its_subscription,
    in_place.convert_with_a_topic_that_it_may_not_describe,
    in_place.convert_at_another_epoch_of_the_helper,
    in_place.rejoin_without_what_it_owns,
    in_place.go_back_without_what_it_owns,
    access.let_everybody_act,
    access.ask_once_for_each_connection,
    access.take_any_answer_for_a_yes,
    access.admit_all_connections_of_a_group,
    access.admit_all_groups_of_a_connection,
    access.believe_relayed_calls,
    sessions.wait_for_a_turn_without_end,
    access.adopt_whoever_commits,
    *BUSY_MUTATIONS,
    *(one for one in STEP_MUTATIONS if one not in STEP_FLEET_MUTATIONS + GATE_FLEET_MUTATIONS),
    *FLEET_MUTATIONS,
)
