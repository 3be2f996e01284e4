"""The clients of this process: their connections, their requests that wait, and the members reached through them.

A connection is kept as long as anything still needs it: its client, an answer of the broker that is to come, or a
member whose heartbeats travel on it after its client is gone.
"""

import math
from collections.abc import Callable

from translation.actions import Connection, ConnectionId, Request, RequestId
from translation.engine.member import Member


class _Client:
    """A connection as long as anything here still needs it."""

    __slots__ = ("alive", "connection", "members", "requests")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.alive = True
        self.members: set[Member] = set()
        self.requests: set[RequestId] = set()


class ClientConnections:
    """See the module.

    ``release`` is called for a connection whose client is gone and that nothing needs any more; ``awaits_answer`` tells
    whether an answer of the broker is still to come on one.
    """

    def __init__(
        self, release: Callable[[ConnectionId], None], awaits_answer: Callable[[ConnectionId], bool]
    ) -> None:
        self._release = release
        self._awaits_answer = awaits_answer
        self._clients: dict[ConnectionId, _Client] = {}
        self._connection_of: dict[RequestId, ConnectionId] = {}

    # -- requests ----------------------------------------------------------------------------------------------

    def track(self, connection: Connection, request: Request) -> None:
        """Remember where a request's answer goes."""
        client = self._clients.get(connection.id)
        if client is None:
            client = self._clients[connection.id] = _Client(connection)
        client.requests.add(request.id)
        self._connection_of[request.id] = connection.id

    def complete(self, request: Request) -> bool:
        """Forget a request; False if its client is gone, so that nobody waits for an answer."""
        connection_id = self._connection_of.pop(request.id, None)
        if connection_id is None:
            return False
        self._clients[connection_id].requests.discard(request.id)
        return True

    def connection_of(self, request: Request) -> Connection | None:
        """The connection on which a request waits."""
        connection_id = self._connection_of.get(request.id)
        return None if connection_id is None else self.connection(connection_id)

    def is_waiting(self, request: Request) -> bool:
        """Whether the client of this request is still there, as far as was read, and has no answer yet."""
        return request.id in self._connection_of

    def is_still_connected(self, request: Request) -> bool:
        """The same as the kernel knows it, for calls that count only while somebody waits for their answer.

        A process that stood still, or a connection that did, brings a call together with the news that its client has
        hung up. The client may have joined elsewhere meanwhile; what such a call says of it is not true any more.
        Commits and LeaveGroup are not such calls: clients send them and close behind them.
        """
        connection_id = self._connection_of.get(request.id)
        return connection_id is not None and not self._clients[connection_id].connection.peer_closed()

    # -- connections -------------------------------------------------------------------------------------------

    def connection(self, connection_id: ConnectionId) -> Connection | None:
        """The connection, as long as its upstream side can be used."""
        client = self._clients.get(connection_id)
        return None if client is None else client.connection

    def is_connected(self, connection_id: ConnectionId | None) -> bool:
        """Whether the client's side of this connection is open, as far as is known."""
        client = None if connection_id is None else self._clients.get(connection_id)
        return client is not None and client.alive

    def client_gone(self, connection_id: ConnectionId) -> None:
        """The client's side is closed; its upstream side stays while members are reached through it."""
        client = self._clients.get(connection_id)
        if client is None:
            self._release(connection_id)
            return
        client.alive = False
        for member in client.members:
            member.may_have_moved = True
        for request_id in client.requests:
            del self._connection_of[request_id]
        client.requests.clear()
        self.maybe_release(connection_id)

    def upstream_lost(self, connection_id: ConnectionId) -> None:
        """Both sides are gone: nothing can be sent for its members until their clients come back."""
        client = self._clients.pop(connection_id, None)
        if client is None:
            return
        for request_id in client.requests:
            del self._connection_of[request_id]
        for member in client.members:
            member.may_have_moved = True
            member.connection_id = None
            last_join_on = (
                self._clients.get(member.join_answered_on) if member.join_answered_on is not None else None
            )
            if last_join_on is not None and last_join_on.alive:
                self.bind(member, last_join_on.connection)  # as before it was heard on the one that is lost
            else:
                member.keep_alive_at = math.inf

    def maybe_release(self, connection_id: ConnectionId) -> None:
        """Let the upstream side go when its client is gone and nothing needs it any more."""
        client = self._clients.get(connection_id)
        if (
            client is not None
            and not client.alive
            and not client.members
            and not self._awaits_answer(connection_id)
        ):
            del self._clients[connection_id]
            self._release(connection_id)

    # -- members -----------------------------------------------------------------------------------------------

    def members_on(self, connection_id: ConnectionId) -> list[Member]:
        """The members that are reached through a connection, in a stable order."""
        client = self._clients.get(connection_id)
        return (
            []
            if client is None
            else sorted(client.members, key=lambda member: (member.group.group_id, member.member_id))
        )

    def bind(self, member: Member, connection: Connection) -> None:
        """The member's client was heard on this connection: from now on the member is reached through it."""
        if member.connection_id == connection.id:
            return
        self.unbind(member)
        member.connection_id = connection.id
        member.client_host = connection.client_host
        member.software = connection.software
        self._clients[connection.id].members.add(member)

    def record_call(self, member: Member, connection: Connection, generation: int) -> None:
        """A call of the member's client came. One with an older generation is late: it may be elsewhere now. One with a
        generation that nobody gave it will be refused, unless the broker knows better
        (:mod:`translation.migration.adoption`)."""
        if generation == member.generation or member.connection_id is None:
            self.bind(member, connection)
        if self._never_left(member, connection):
            member.may_have_moved = False

    def _never_left(self, member: Member, connection: Connection) -> bool:
        """Whether a call on this connection shows that the client has not been elsewhere since its last JoinGroup here.

        It is the connection on which that was answered, and still open. What was closed since, if anything, is an older
        one, on which calls were late.
        """
        return connection.id == member.join_answered_on and self.is_connected(connection.id)

    def unbind(self, member: Member) -> None:
        """The member is reached through no connection any more."""
        before, member.connection_id = member.connection_id, None
        if before is not None and before in self._clients:
            self._clients[before].members.discard(member)
            self.maybe_release(before)

    def is_stale(self, member: Member, connection: Connection, request: Request) -> bool:
        """Whether a JoinGroup on this connection is older than the client's last one, and was overtaken on its way.

        The client has joined again on a connection that it opened later, and that is still open, or was followed by
        one that is. What the older one claims is not true any more. A static member has another member id then, if it
        sends none.
        """
        holder = member.group.members.get(
            member.group.static_members.get(request.message.group_instance_id or "", "")
        )
        if holder is not None and (holder.client_id, holder.client_host) == (
            request.client_id,
            connection.client_host,
        ):
            member = holder
        last_join_on, newest = member.last_join_on, member.connection_id
        if last_join_on is None or connection.id >= last_join_on:
            return False
        followed = newest is not None and last_join_on < newest
        return self.is_connected(last_join_on) or (followed and self.is_connected(newest))
