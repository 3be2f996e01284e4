"""Deliberate breakages of the translation, each of which the simulation has to notice.

A mutation is a context manager that breaks the real code while it is open. The first line of its docstring says what
the broken code does; the table in docs/evidence/simulation.md is made of these lines, in the order of ``MUTATIONS``.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from tests.simulation.mutations import access, generations, instance_ids, moves, partitions, sessions

Mutation = Callable[[], AbstractContextManager[Any]]

MUTATIONS: tuple[Mutation, ...] = (
    partitions.acknowledge_early,
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
    moves.go_back_with_partitions_in_hand,
    sessions.a_told_heartbeat_is_no_life,
    moves.convert_in_the_middle_of_a_cooperative_rebalance,
    sessions.trust_a_client_that_was_away,
    moves.do_not_call_off_a_move,
    sessions.count_a_join_group_that_nobody_waits_for,
    generations.remember_one_answered_generation,
    generations.look_for_a_client_where_a_late_call_came,
    partitions.keep_a_changed_assignor,
    instance_ids.let_an_older_process_replace_the_newer_one,
    instance_ids.let_the_older_process_have_its_instance_id_back,
    sessions.take_a_late_heartbeat_for_its_client,
    moves.take_a_group_that_was_left_for_a_consumer_group,
    moves.leave_last_while_others_have_to_give_up,
    moves.leave_by_itself_while_others_have_to_give_up,
    moves.keep_an_id_that_an_older_join_group_has,
    moves.keep_an_id_that_another_process_may_be_ending,
    sessions.take_the_end_of_an_older_connection_for_that_of_its_client,
    generations.believe_any_newer_generation,
    moves.believe_that_a_group_is_neither_kind,
    moves.forget_a_group_by_its_name,
    moves.forget_a_group_that_gives_up_partitions,
    moves.join_a_classic_group_for_a_client_that_has_gone,
    moves.convert_a_group_that_has_just_become_classic,
    moves.move_a_classic_member_with_partitions,
    moves.leave_the_classic_group_first,
    moves.leave_a_group_alone_for_ever,
    access.let_everybody_act,
    access.ask_once_for_each_connection,
    access.take_any_answer_for_a_yes,
    access.admit_all_connections_of_a_group,
    access.admit_all_groups_of_a_connection,
    access.believe_relayed_calls,
    sessions.wait_for_a_turn_without_end,
    access.adopt_whoever_commits,
)
