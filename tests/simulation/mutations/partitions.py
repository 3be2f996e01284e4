"""Mutations of what clients own and are assigned."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from translation import (
    translator,
)
from translation.apis import assignment_wait, heartbeat, join_group, predicted_heartbeat
from translation.apis.sync_group import SyncGroups
from translation.engine.context import replaced
from translation.engine.memberships import Memberships
from translation.engine.registry import Registry
from translation.joining import adoption
from translation.members.member import Member
from translation.members.member_state import MemberEvent, MemberState
from translation.partitions import NONE, from_topics
from translation.upstream import consumer_group_heartbeat
from translation.upstream.heartbeat_outcome import detect_rebalance


def give_up_while_join_group_waits() -> AbstractContextManager[Any]:
    """In an initial rebalance members give up partitions while their clients' JoinGroups wait."""
    heartbeats = assignment_wait.AssignmentWait._has_heartbeated

    def broken(self: Any, member: Member, *, client_is_here: bool) -> Any:
        return heartbeats(self, member, client_is_here=True)

    return patch.object(assignment_wait.AssignmentWait, "_has_heartbeated", broken)


def wait_for_others_in_a_group_that_has_members() -> AbstractContextManager[Any]:
    """A new member of a group with members waits for others, while what it is assigned has no reader."""
    described = Registry.described

    def broken(self: Registry, group_id: str, *, is_new: bool) -> None:
        described(self, group_id, is_new=True)

    return patch.object(Registry, "described", broken)


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


def hand_out_withheld_partitions() -> AbstractContextManager[Any]:
    """SyncGroup gives what the broker has withdrawn."""
    sync = SyncGroups.sync

    def broken(self: Any, member: Member, *rest: Any) -> Any:
        member.partitions.broker_assignment |= member.partitions.possibly_owned
        member.partitions.pending_revocation = NONE
        return (yield from sync(self, member, *rest))

    return patch.object(SyncGroups, "sync", broken)


def ignore_a_lost_answer() -> AbstractContextManager[Any]:
    """After a lost answer heartbeats go on as if nothing had happened."""
    return patch.object(
        consumer_group_heartbeat,
        "has_to_report_owned",
        lambda _environment, _member_log, member, *, client_is_here: member.member_epoch == 0,
    )


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


def adopt_with_the_described_assignment() -> AbstractContextManager[Any]:
    """The assignment in ConsumerGroupDescribe is taken for what the client holds."""
    real = adoption.Adoption._adopt

    def broken(self: Any, member: Member, call: Any, found: Any) -> None:
        real(self, member, call, found)
        member.adopted = False
        member.partitions.broker_assignment = member.partitions.possibly_owned = from_topics(
            found.assignment.topic_partitions
        )
        member.broker.reply_lost = True

    return patch.object(adoption.Adoption, "_adopt", broken)


def rejoin_at_every_epoch() -> AbstractContextManager[Any]:
    """A client is asked to rejoin whenever the broker's epoch moves."""

    def broken(
        environment: Any, topic_names: Any, memberships: Memberships, events: Any, member: Member
    ) -> None:
        detect_rebalance(environment, topic_names, memberships, events, member)
        if member.state is MemberState.STABLE and member.member_epoch != member.generation:
            memberships.change_state(member, MemberEvent.ASSIGNMENT_CHANGED, "broken")

    return patch("translation.upstream.heartbeat_outcome.detect_rebalance", broken)


def never_tell() -> AbstractContextManager[Any]:
    """Changes of the assignment are kept from the client."""
    return patch("translation.upstream.heartbeat_outcome.detect_rebalance", lambda *_: None)


def keep_a_changed_assignor() -> AbstractContextManager[Any]:
    """An assignor that the policy changes reaches the broker only when the client joins again."""
    return patch.object(translator, "update_assignors", lambda *_: None)
