"""Lets a helper join before the last member of the new protocol ends while classic members lag behind.

When that member leaves, the broker makes the group a classic one with the group epoch as its generation, and answers
each member with an older epoch ILLEGAL_GENERATION: its client loses its partitions. A client that goes back waits until
all have reached it (:mod:`translation.conversion.last_consumer_member`). One that leaves, or is silent, can't wait; so
a helper takes its place, and leaves when all have (:mod:`translation.conversion.helper`).
"""

from protocol_codecs import ErrorCode
from translation.actions import Connection, ConnectionId
from translation.conversion.helper import Helpers
from translation.conversion.last_consumer_member import would_leave_others_behind
from translation.engine.context import Context
from translation.members.environment import Environment
from translation.members.member import Group
from translation.members.procedure import Procedure, UpstreamLost


class StandIn:
    """Lets a helper join before a member ends."""

    def __init__(self, context: Context) -> None:
        self._environment: Environment = context
        self._connections = context.connections
        self._classic_members = context.classic_members
        self._helpers = Helpers(context)

    def stand_in(self, group: Group, member_id: str, connection: Connection) -> Procedure[None]:
        """Let a helper join, on the connection of the procedure, if this member is the last and others lag behind.

        If the group takes no helper, or the connection is lost, the member ends without one.
        """
        try:
            if (yield from would_leave_others_behind(group, member_id, connection)):
                yield from self._join(group, connection)
        except UpstreamLost:
            return

    def end_behind_helper(
        self, group: Group, member_id: str, connection_id: ConnectionId, steps: Procedure[None]
    ) -> Procedure[None]:
        """End a member by these steps, on this connection, after a helper has joined if one has to.

        The broker is asked only if a classic member of the group is known here, or may be served by another process.
        """
        connection = self._connections.connection(connection_id)
        may_leave_others = (
            self._classic_members.has_of(group.group_id) or not self._environment.settings.sole_process
        )
        if connection is not None and may_leave_others:
            yield from self.stand_in(group, member_id, connection)
        yield from steps

    def _join(self, group: Group, connection: Connection) -> Procedure[None]:
        conversion = group.conversion or self._helpers.begin(group, connection)
        if conversion.helper_id or conversion.is_joining:
            return
        conversion.stands_in = True
        conversion.changed_at = self._environment.now
        response = yield from self._helpers.join(conversion)
        if response.error_code != ErrorCode.NONE and group.conversion is conversion:
            self._helpers.end(group)
