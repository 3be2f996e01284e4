"""Hosted groups as the translation meets them: what it asks, has handled and waits for."""

from collections.abc import Callable

import trio

from hosting.calls import apply_answers, route_hosted
from hosting.groups.settings import HostedSettings
from hosting.process_room import ProcessRoom
from hosting.replicas import keep_hosts
from hosting.state import Hosting
from translation.actions import ConnectionId, Request
from translation.engine.context import Context
from translation.engine.group_router import RouteAgain
from translation.member_log.group_records import HOST
from translation.member_log.records import MemberKey
from translation.policy.policy import Mode


class HostedRouter:
    """Implements :class:`translation.engine.group_router.GroupRouter` for the groups of ``mode: host``."""

    def __init__(self, context: Context, room: ProcessRoom) -> None:
        self._context = context
        self._room = room
        self.hosting = Hosting(context, room)

    def route(self, request: Request, route_again: RouteAgain) -> bool:
        """Take a call if its group is hosted, or is to be."""
        return route_hosted(self.hosting, request, route_again)

    def may_take(self, group_id: str) -> bool:
        """Whether a group is hosted, or is to be."""
        return self._context.rules.rule_for(group_id).mode is Mode.HOST or self.has_group(group_id)

    def has_group(self, group_id: str) -> bool:
        """Whether a group is hosted now, here or elsewhere, or whether that is not known."""
        return self.hosting.is_hosted(group_id, self._context.now)

    def connection_ended(self, connection_id: ConnectionId) -> None:
        """Forget JoinGroups that wait on a connection, and what its client was told."""
        apply_answers(self.hosting, self._room.client_gone(self._context.now, connection_id))
        self.hosting.forget(connection_id)

    def record_settled(self, key: MemberKey) -> None:
        """Note which replica hosts a group, if this record says so."""
        if key.member_id == HOST and self.hosting.hosts is not None:
            self.hosting.hosts.note(key.group_id, self._context.now)

    def next_deadline(self) -> float:
        """When the room, or what is hosted by the log, is to be looked at; infinity for never."""
        return min(self._room.next_deadline(), self.hosting.look_at)

    def handle_time(self) -> None:
        """Do what is due in the room, and renew or end what this replica hosts by the log."""
        apply_answers(self.hosting, self._room.advance(self._context.now))
        apply_answers(self.hosting, keep_hosts(self.hosting))

    def on_failure(self, count: Callable[[], None]) -> None:
        """Call ``count`` whenever a bug has ended a hosted group."""
        self._room.count_failure = count


def make_router(
    session_timeout_min_ms: int, session_timeout_max_ms: int
) -> Callable[[Context], HostedRouter]:
    """Return what makes the router of this process, whose clients may have these session timeouts.

    To be called in trio.
    """
    settings = HostedSettings(
        session_timeout_min_ms=session_timeout_min_ms, session_timeout_max_ms=session_timeout_max_ms
    )
    room = ProcessRoom(settings, trio.current_time())
    return lambda context: HostedRouter(context, room)
