"""Deliberate breakages of the translation, each of which simulation has to notice.

A mutation is a context manager that breaks the real code while it is open. What each means for a user is its
docstring's first line; the table in docs/evidence/simulation.md is made of them.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from protocol_codecs import ErrorCode
from translation import (
    authorization,
    deadlines,
    generation,
    member_id_required,
    relayed_responses,
    static_members,
    translator,
)
from translation.actions import EventKind
from translation.apis import heartbeat, join_group, leave_group, predicted_heartbeat
from translation.engine import join_outcomes, registry
from translation.engine.authorized_groups import AuthorizedGroups
from translation.engine.connections import ClientConnections
from translation.engine.context import Context, replaced
from translation.engine.member import Member
from translation.engine.memberships import Memberships
from translation.engine.native_members import NativeMembers
from translation.engine.procedure import ProcedureQueue
from translation.engine.registry import Registry
from translation.engine.scheduler import Scheduler
from translation.member_state import MemberEvent, MemberState
from translation.migration import adoption, classic_join, downgrade, join_preflight
from translation.partitions import NONE, from_topics
from translation.routing import call_routing, join_routing
from translation.settings import TranslatorSettings
from translation.upstream import consumer_group_heartbeat
from translation.upstream.heartbeat_outcome import detect_rebalance

Mutation = Callable[[], AbstractContextManager[Any]]


@contextmanager
def acknowledge_early() -> Iterator[None]:
    """Every heartbeat says that the client owns nothing."""
    keepalive_request = consumer_group_heartbeat.keepalive_request

    def broken(*about: Any, **more: Any) -> Any:
        request = keepalive_request(*about, **more)
        if request.member_epoch > 0 and request.topic_partitions is None:
            request = replaced(request, topic_partitions=())
        return request

    with (
        patch.object(consumer_group_heartbeat, "keepalive_request", broken),
        patch.object(heartbeat, "keepalive_request", broken),
        patch.object(predicted_heartbeat, "keepalive_request", broken),
    ):
        yield


def skip_the_generation_check() -> AbstractContextManager[Any]:
    """A commit is taken with any generation."""
    return patch.object(generation, "may_commit", lambda member, carried: True)


def forget_the_previous_generation() -> AbstractContextManager[Any]:
    """Between JoinGroup and SyncGroup a commit with the previous generation is refused."""
    return patch.object(generation, "may_commit", generation.is_current)


def hand_out_withheld_partitions() -> AbstractContextManager[Any]:
    """SyncGroup gives what the broker has withdrawn."""
    sync = call_routing.sync

    def broken(context: Context, member: Member, *rest: Any) -> Any:
        member.partitions.broker_assignment |= member.partitions.possibly_owned
        member.partitions.pending_revocation = NONE
        return (yield from sync(context, member, *rest))

    return patch.object(call_routing, "sync", broken)


def ignore_a_lost_answer() -> AbstractContextManager[Any]:
    """After a lost answer heartbeats go on as if nothing had happened."""
    return patch.object(
        consumer_group_heartbeat,
        "has_to_report_owned",
        lambda context, member, *, client_is_here: member.member_epoch == 0,
    )


def leave_without_waiting_for_its_turn() -> AbstractContextManager[Any]:
    """The -1 for an expired client overtakes or is overtaken by its next JoinGroup."""
    start = deadlines._start

    def broken(context: Context, member: Member, *, expiring: bool) -> None:
        if expiring and member.connection_id is not None:
            context.memberships.end(member, MemberEvent.EXPIRED, EventKind.SESSION_EXPIRED, "broken")
            steps = _leave_later(context, member)
            context.scheduler.start(steps, ProcedureQueue(), member.connection_id, member.client.client_id)
        else:
            start(context, member, expiring=expiring)

    return patch.object(deadlines, "_start", broken)


def _leave_later(context: Context, member: Member) -> Iterator[Any]:
    yield from consumer_group_heartbeat.leave(member)


def ignore_the_claim() -> AbstractContextManager[Any]:
    """A JoinGroup releases everything, whatever the client says that it still holds."""

    def broken(*_: Any) -> Any:
        return NONE
        yield

    return patch.object(join_group, "owned_in_join", broken)


def forget_what_is_withheld() -> AbstractContextManager[Any]:
    """A client that claimed more than it got is not asked to join again without it."""
    change_state = Memberships.change_state

    def broken(self: Memberships, member: Member, event: MemberEvent, reason: str) -> None:
        if event is MemberEvent.SYNC_ANSWERED_WITHHOLDING:
            event = MemberEvent.SYNC_ANSWERED
        change_state(self, member, event, reason)

    return patch.object(Memberships, "change_state", broken)


def no_keep_alive() -> AbstractContextManager[Any]:
    """Nothing is sent for clients that heartbeat more slowly than the broker's session."""
    return patch.object(deadlines, "heartbeat", consumer_group_heartbeat.schedule_keepalive)


def no_suspended_session() -> AbstractContextManager[Any]:
    """The session runs on while the client waits in JoinGroup."""
    park = join_outcomes.wait_in_join

    def broken(member: Member, request: Any, until: float) -> Any:
        if member.deadlines.session_deadline == math.inf:
            member.deadlines.session_deadline = until + 0.2
            member._owner._environment.book(member)
        return (yield from park(member, request, until))

    return patch.object(join_group, "wait_in_join", broken)


def adopt_with_the_described_assignment() -> AbstractContextManager[Any]:
    """What ConsumerGroupDescribe says is taken for what the client holds."""
    real = adoption._adopt

    def broken(context: Context, member: Member, connection: Any, request: Any, found: Any) -> None:
        real(context, member, connection, request, found)
        member.adopted = False
        member.partitions.broker_assignment = member.partitions.possibly_owned = from_topics(
            found.assignment.topic_partitions
        )
        member.broker.reply_lost = True

    return patch.object(adoption, "_adopt", broken)


def rejoin_at_every_epoch() -> AbstractContextManager[Any]:
    """A client is asked to rejoin whenever the broker's epoch moves."""

    def broken(context: Context, member: Member) -> None:
        detect_rebalance(context, member)
        if member.state is MemberState.STABLE and member.member_epoch != member.generation:
            context.memberships.change_state(member, MemberEvent.ASSIGNMENT_CHANGED, "broken")

    return patch("translation.upstream.heartbeat_outcome.detect_rebalance", broken)


def never_tell() -> AbstractContextManager[Any]:
    """Changes of the assignment are kept from the client."""
    return patch("translation.upstream.heartbeat_outcome.detect_rebalance", lambda context, member: None)


def trust_to_be_the_only_process() -> AbstractContextManager[Any]:
    """Each of several processes ends the memberships of clients that it does not hear."""
    return patch.object(TranslatorSettings, "sole_process", new=True)


def do_not_replace_static_members() -> AbstractContextManager[Any]:
    """A new process with a known instance id is refused, as the broker refuses it."""

    def broken(context: Context, member: Member, *, is_new: bool) -> Any:
        raise join_outcomes.Failed(ErrorCode.FENCED_INSTANCE_ID, "broken")
        yield

    return patch.object(static_members, "release_instance", broken)


def let_a_late_join_group_in() -> AbstractContextManager[Any]:
    """A JoinGroup that a newer one overtook on its way is taken for the newest."""
    return patch.object(ClientConnections, "is_stale", lambda *_: False)


def go_back_with_partitions_in_hand() -> AbstractContextManager[Any]:
    """Back to observe, a membership ends although its client still claims partitions."""
    return patch.object(join_routing, "owns_partitions", lambda message: False)


def a_told_heartbeat_is_no_life() -> AbstractContextManager[Any]:
    """A Heartbeat that is told to move to the other protocol does not renew the session."""
    has_to_move_back = downgrade.has_to_move_back

    def broken(context: Context, connection: Any, request: Any) -> bool:
        member = context.registry.find(request.message.group_id, request.message.member_id)
        before = math.inf if member is None else member.deadlines.session_deadline
        moves = has_to_move_back(context, connection, request)
        if moves and member is not None:
            member.deadlines.session_deadline = before
        return moves

    return patch.object(downgrade, "has_to_move_back", broken)


def convert_in_the_middle_of_a_cooperative_rebalance() -> AbstractContextManager[Any]:
    """A classic group is converted while members still have partitions to give up."""
    return patch.object(TranslatorSettings, "revocation_grace_s", new=-math.inf)


def trust_a_client_that_was_away() -> AbstractContextManager[Any]:
    """What a process knows of a client counts although another process may have served it meanwhile."""

    def broken(member: Member, carried: int, *, sole_process: bool) -> bool:
        return not sole_process and carried > member.generation

    return patch.object(generation, "served_elsewhere", broken)


def do_not_call_off_a_move() -> AbstractContextManager[Any]:
    """A member that was told to go back is told again although the policy says translate again."""
    has_to_move_back = downgrade.has_to_move_back

    def broken(context: Context, connection: Any, request: Any) -> bool:
        group = context.registry.groups.get(request.message.group_id)
        return (group is not None and request.message.member_id in group.pending_moves) or has_to_move_back(
            context, connection, request
        )

    return patch.object(downgrade, "has_to_move_back", broken)


def count_a_join_group_that_nobody_waits_for() -> AbstractContextManager[Any]:
    """A JoinGroup counts although its client has hung up, and may have joined elsewhere."""
    return patch.object(join_preflight, "ensure_client_waiting", lambda *_: None)


def remember_one_answered_generation() -> AbstractContextManager[Any]:
    """The answer to a second JoinGroup takes the place of a generation that the client still has."""
    answer = join_group._answer

    def broken(context: Context, member: Member, *rest: Any) -> None:
        before = member.generation
        answer(context, member, *rest)
        member.previous_generation = before

    return patch.object(join_group, "_answer", broken)


def look_for_a_client_where_a_late_call_came() -> AbstractContextManager[Any]:
    """A call with an older generation tells where its client is, and no later call tells better."""
    return patch.object(
        ClientConnections,
        "record_call",
        lambda self, member, connection, carried: self.bind(member, connection),
    )


def keep_a_changed_assignor() -> AbstractContextManager[Any]:
    """An assignor that the policy changes reaches the broker only when the client joins again."""
    return patch.object(translator, "update_assignors", lambda context, group: None)


def let_an_older_process_replace_the_newer_one() -> AbstractContextManager[Any]:
    """A process with a member id of its own replaces whoever has its instance id."""
    release = static_members.release_instance

    def broken(context: Context, member: Member, *, is_new: bool) -> Any:
        return (yield from release(context, member, is_new=True))

    return patch.object(static_members, "release_instance", broken)


def let_the_older_process_have_its_instance_id_back() -> AbstractContextManager[Any]:
    """The broker's word for an older process counts although a newer one takes its instance id over here."""

    def broken(context: Context, member: Member) -> None:
        if member.client.instance_id is not None:
            member.group.static_members[member.client.instance_id] = member.member_id

    return patch.object(static_members, "claim_instance", broken)


def take_a_late_heartbeat_for_its_client() -> AbstractContextManager[Any]:
    """A Heartbeat shows that its client is here, also one that came together with the news that it is not."""
    return patch.object(heartbeat, "_is_still_connected", lambda *_: True)


def take_a_group_that_was_left_for_a_consumer_group() -> AbstractContextManager[Any]:
    """The last member of the new protocol leaves, and the group is converted again in the rebalance that follows."""

    def broken(context: Context, member: Member, reason: str) -> Any:
        yield from consumer_group_heartbeat.leave(member)

    return patch.multiple(
        join_preflight, leave_consumer_membership=broken, has_to_wait_for_others=_nobody_has_to_wait
    )


def leave_last_while_others_have_to_give_up() -> AbstractContextManager[Any]:
    """The last member of the new protocol goes back while others have partitions to give up."""
    return patch.object(downgrade, "has_to_wait_for_others", _nobody_has_to_wait)


def leave_by_itself_while_others_have_to_give_up() -> AbstractContextManager[Any]:
    """The client of the last member of the new protocol leaves while others have partitions to give up."""
    return patch.object(leave_group, "has_to_wait_for_others", _nobody_has_to_wait)


def keep_an_id_that_an_older_join_group_has() -> AbstractContextManager[Any]:
    """A client that lost patience with a relayed JoinGroup joins the new protocol under the same member id."""
    return patch.object(member_id_required, "older_join_may_arrive", lambda *_: False)


def keep_an_id_that_another_process_may_be_ending() -> AbstractContextManager[Any]:
    """A classic member that was elsewhere before keeps its id, and a late LeaveGroup from there ends what it begins."""
    return patch.object(member_id_required, "may_be_left_again", lambda *_: False)


def _nobody_has_to_wait(*_: Any) -> Any:
    yield from ()
    return False


def take_the_end_of_an_older_connection_for_that_of_its_client() -> AbstractContextManager[Any]:
    """A client counts as away when an older connection of it ends, also if it is heard where it joined last."""
    return patch.object(ClientConnections, "_never_left", lambda *_: False)


def believe_any_newer_generation() -> AbstractContextManager[Any]:
    """A generation that the broker has not come to is taken for one that another process gave."""
    return patch.object(generation, "is_of_another_membership", lambda *_: False)


def believe_that_a_group_is_neither_kind() -> AbstractContextManager[Any]:
    """That a group is no consumer group counts although it may have been converted since that was asked."""
    look = join_preflight._lookup_member
    first: dict[tuple[int, int], adoption.Found] = {}

    def broken(
        context: Context, member: Member, connection: Any, request: Any, *rest: Any, **named: Any
    ) -> Any:
        asked = id(context), request.id
        if asked not in first or first[asked][0] is not adoption.Verdict.CLASSIC_GROUP:
            first[asked] = yield from look(context, member, connection, request, *rest, **named)
        return first[asked]

    return patch.object(join_preflight, "_lookup_member", broken)


def forget_a_group_by_its_name() -> AbstractContextManager[Any]:
    """A procedure that holds an older record of a group makes the process forget the newer one."""
    drop = Registry.drop_group_if_empty

    def broken(self: Registry, group: Any) -> None:
        newer = self.groups.get(group.group_id)
        if newer is not None:
            self.groups[group.group_id] = group
            drop(self, group)
            if group.group_id in self.groups:
                self.groups[group.group_id] = newer

    return patch.object(Registry, "drop_group_if_empty", broken)


def forget_a_group_that_gives_up_partitions() -> AbstractContextManager[Any]:
    """A group whose conversion waits for partitions to be given up is forgotten when no member of it is left here."""
    drop = Registry.drop_group_if_empty

    def broken(self: Registry, group: Any) -> None:
        before, group.migration._grace_until = group.migration._grace_until, math.inf
        drop(self, group)
        group.migration._grace_until = before

    return patch.object(Registry, "drop_group_if_empty", broken)


def join_a_classic_group_for_a_client_that_has_gone() -> AbstractContextManager[Any]:
    """A classic JoinGroup that waited goes to the broker although its client has hung up."""
    return patch.object(classic_join, "_client_is_gone", lambda *_: False)


def convert_a_group_that_has_just_become_classic() -> AbstractContextManager[Any]:
    """A member leaves a consumer group of classic members, which is converted again in the rebalance that follows."""
    return patch.object(join_preflight, "_may_have_become_classic", lambda group, now: False)


def move_a_classic_member_with_partitions() -> AbstractContextManager[Any]:
    """A classic member with partitions is converted because its client was told to move once before."""
    return patch.object(
        join_preflight,
        "_completes_a_move",
        lambda old_classic_membership, *, owns_partitions: old_classic_membership is not None,
    )


def leave_the_classic_group_first() -> AbstractContextManager[Any]:
    """A client that moves leaves its classic group, which rebalances, before the first heartbeat converts it."""
    return patch.object(join_preflight, "_may_join_before_leaving", lambda *_: False)


@contextmanager
def leave_a_group_alone_for_ever() -> Iterator[None]:
    """A group that somebody has not left in time, when all were told to, is not tried again."""
    with (
        patch.object(join_preflight, "passthrough_backoff_s", lambda *_: math.inf),
        patch.object(join_group, "passthrough_backoff_s", lambda *_: math.inf),
    ):
        yield


def let_everybody_act() -> AbstractContextManager[Any]:
    """Nobody asks the broker whether the sender of a call may act in its group."""
    return patch.object(authorization, "is_authorized", lambda *_: True)


def ask_once_for_each_connection() -> AbstractContextManager[Any]:
    """A connection that the broker accepted once speaks for members that are served on others."""
    is_authorized = authorization.is_authorized

    def broken(context: Context, connection: Any, request: Any, *rest: Any) -> bool:
        includes = context.authorized_groups.includes
        return includes(connection.id, request.message.group_id) or is_authorized(
            context, connection, request, *rest
        )

    return patch.object(authorization, "is_authorized", broken)


def take_any_answer_for_a_yes() -> AbstractContextManager[Any]:
    """The broker is asked whether the sender may act, and what it answers counts for nothing."""
    return patch.object(authorization, "ALLOWED", frozenset(ErrorCode))


def admit_all_connections_of_a_group() -> AbstractContextManager[Any]:
    """What the broker accepts on one connection counts on every other."""

    def broken(self: AuthorizedGroups, connection_id: Any, group_id: str) -> bool:
        return any(group_id in groups for groups in self._groups.values())

    return patch.object(AuthorizedGroups, "includes", broken)


def admit_all_groups_of_a_connection() -> AbstractContextManager[Any]:
    """What the broker accepts for one group counts for every other."""

    def broken(self: AuthorizedGroups, connection_id: Any, group_id: str) -> bool:
        return connection_id in self._groups

    return patch.object(AuthorizedGroups, "includes", broken)


def believe_relayed_calls() -> AbstractContextManager[Any]:
    """A call that was relayed counts, whatever the broker answered to it."""
    return patch.object(relayed_responses, "_ACCEPTED", frozenset(ErrorCode))


@contextmanager
def wait_for_a_turn_without_end() -> Iterator[None]:
    """A member waits for ever for the answer to a call that came on a connection which reads nothing."""
    with (
        patch.object(Scheduler, "limit_turn", _nobody_has_to_wait),
        patch.object(Scheduler, "end_silence", _nobody_has_to_wait),
    ):
        yield


@contextmanager
def adopt_whoever_commits() -> Iterator[None]:
    """A member of the new protocol that nobody translates is adopted when it commits."""
    with (
        patch.object(NativeMembers, "__contains__", lambda self, key: False),
        patch.object(call_routing, "may_be_translated", lambda member_id: True),
        patch.object(registry, "may_be_translated", lambda member_id: True),
    ):
        yield


MUTATIONS: tuple[Mutation, ...] = (
    acknowledge_early,
    skip_the_generation_check,
    forget_the_previous_generation,
    hand_out_withheld_partitions,
    ignore_a_lost_answer,
    leave_without_waiting_for_its_turn,
    ignore_the_claim,
    forget_what_is_withheld,
    no_keep_alive,
    no_suspended_session,
    adopt_with_the_described_assignment,
    rejoin_at_every_epoch,
    never_tell,
    trust_to_be_the_only_process,
    do_not_replace_static_members,
    let_a_late_join_group_in,
    go_back_with_partitions_in_hand,
    a_told_heartbeat_is_no_life,
    convert_in_the_middle_of_a_cooperative_rebalance,
    trust_a_client_that_was_away,
    do_not_call_off_a_move,
    count_a_join_group_that_nobody_waits_for,
    remember_one_answered_generation,
    look_for_a_client_where_a_late_call_came,
    keep_a_changed_assignor,
    let_an_older_process_replace_the_newer_one,
    let_the_older_process_have_its_instance_id_back,
    take_a_late_heartbeat_for_its_client,
    take_a_group_that_was_left_for_a_consumer_group,
    leave_last_while_others_have_to_give_up,
    leave_by_itself_while_others_have_to_give_up,
    keep_an_id_that_an_older_join_group_has,
    keep_an_id_that_another_process_may_be_ending,
    take_the_end_of_an_older_connection_for_that_of_its_client,
    believe_any_newer_generation,
    believe_that_a_group_is_neither_kind,
    forget_a_group_by_its_name,
    forget_a_group_that_gives_up_partitions,
    join_a_classic_group_for_a_client_that_has_gone,
    convert_a_group_that_has_just_become_classic,
    move_a_classic_member_with_partitions,
    leave_the_classic_group_first,
    leave_a_group_alone_for_ever,
    let_everybody_act,
    ask_once_for_each_connection,
    take_any_answer_for_a_yes,
    admit_all_connections_of_a_group,
    admit_all_groups_of_a_connection,
    believe_relayed_calls,
    wait_for_a_turn_without_end,
    adopt_whoever_commits,
)
