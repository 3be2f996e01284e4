"""Mutations of sessions: which process hears a client, on which connection, and when a membership ends."""

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from translation.actions import EventKind
from translation.apis import assignment_wait, heartbeat, join_group
from translation.engine import join_wait
from translation.engine.connections import ClientConnections
from translation.engine.scheduler import Scheduler
from translation.joining import join_preflight
from translation.members import generation
from translation.members.member import Member
from translation.members.member_state import MemberEvent
from translation.members.procedure import ProcedureQueue
from translation.moving import downgrade
from translation.routing import deadlines
from translation.settings import TranslatorSettings
from translation.upstream import consumer_group_heartbeat
from translation.upstream.leave_epoch import leave


def leave_without_waiting_for_its_turn() -> AbstractContextManager[Any]:
    """The epoch -1 of an expired client overtakes its next JoinGroup, or is overtaken by it."""
    start = deadlines.Deadlines._start

    def broken(self: Any, member: Member, *, expiring: bool) -> None:
        if expiring and member.connection_id is not None:
            self._memberships.end(member, MemberEvent.EXPIRED, EventKind.SESSION_EXPIRED, "broken")
            steps = _leave_later(member)
            self._scheduler.start(steps, ProcedureQueue(), member.connection_id, member.client.client_id)
        else:
            start(self, member, expiring=expiring)

    return patch.object(deadlines.Deadlines, "_start", broken)


def _leave_later(member: Member) -> Iterator[Any]:
    yield from leave(member)


def no_keep_alive() -> AbstractContextManager[Any]:
    """Nothing is sent for clients that heartbeat more slowly than the broker's session."""

    def broken(self: Any, member: Member) -> None:
        consumer_group_heartbeat.schedule_keepalive(self._environment, member)

    return patch.object(deadlines.Deadlines, "heartbeat", broken)


@contextmanager
def no_suspended_session() -> Iterator[None]:
    """The session runs on while the client waits in JoinGroup."""
    park = join_wait.wait_in_join

    def broken(member: Member, request: Any, until: float) -> Any:
        if member.deadlines.session_deadline == math.inf:
            member.deadlines.session_deadline = until + 0.2
            member._owner._environment.book(member)
        return (yield from park(member, request, until))

    with (
        patch.object(join_group, "wait_in_join", broken),
        patch.object(assignment_wait, "wait_in_join", broken),
    ):
        yield


def trust_to_be_the_only_process() -> AbstractContextManager[Any]:
    """Each of several processes ends the memberships of clients that it does not hear."""
    return patch.object(TranslatorSettings, "sole_process", new=True)


def let_a_late_join_group_in() -> AbstractContextManager[Any]:
    """A JoinGroup that a newer one overtook on its way is taken for the newest."""
    return patch.object(ClientConnections, "is_stale", lambda *_: False)


def a_told_heartbeat_is_no_life() -> AbstractContextManager[Any]:
    """A Heartbeat that has its client rejoin, to go back to the classic protocol, does not renew the session."""
    return patch.object(downgrade, "session_timeout", SimpleNamespace(renew=lambda *_: None))


def trust_a_client_that_was_away() -> AbstractContextManager[Any]:
    """A process trusts its state of a client although another process may have served the client meanwhile."""

    def broken(member: Member, carried: int, *, sole_process: bool) -> bool:
        return not sole_process and carried > member.generation

    return patch.object(generation, "served_elsewhere", broken)


def count_a_join_group_that_nobody_waits_for() -> AbstractContextManager[Any]:
    """A JoinGroup counts although its client has hung up, and may have joined elsewhere."""
    return patch.object(join_preflight, "ensure_client_waiting", lambda *_: None)


def take_a_late_heartbeat_for_its_client() -> AbstractContextManager[Any]:
    """A Heartbeat shows that its client is here, also one that came together with the news that it is not."""
    return patch.object(heartbeat.Heartbeats, "_is_still_connected", lambda *_: True)


def take_the_end_of_an_older_connection_for_that_of_its_client() -> AbstractContextManager[Any]:
    """A client counts as away when an older connection of it ends, also if it is heard where it joined last."""
    return patch.object(ClientConnections, "_never_left", lambda *_: False)


@contextmanager
def wait_for_a_turn_without_end() -> Iterator[None]:
    """A member waits forever for the answer to a call that came on a connection that reads nothing."""
    with (
        patch.object(Scheduler, "limit_turn", lambda *_: None),
        patch.object(Scheduler, "end_silence", lambda *_: None),
    ):
        yield
