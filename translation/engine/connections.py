"""Client connections, their unanswered requests, and the members that are reached through each.

The proxy keeps an upstream connection after its client has closed, as long as a response is still to come on it or a
member's heartbeats travel on it.
"""

import math
from collections.abc import Callable
from typing import Any

from translation.actions import Answer, Connection, ConnectionId, Forward, Request, RequestId
from translation.members.environment import Environment
from translation.members.member import Member


class _Client:
    """A connection that is still needed; ``alive`` until its client closes."""

    __slots__ = ("alive", "connection", "members", "requests")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.alive = True
        self.members: set[Member] = set()
        self.requests: set[RequestId] = set()


class ClientConnections:
    """All client connections of this process.

    ``release`` is called with a connection that has lost its client and is needed for nothing else; ``awaits_answer``
    says whether a response of the broker is still to come on a connection.
    """

    def __init__(
        self,
        environment: Environment,
        release: Callable[[ConnectionId], None],
        awaits_answer: Callable[[ConnectionId], bool],
    ) -> None:
        self._environment = environment
        self._release = release
        self._awaits_answer = awaits_answer
        self._clients: dict[ConnectionId, _Client] = {}
        self._connection_of: dict[RequestId, ConnectionId] = {}

    # -- requests ----------------------------------------------------------------------------------------------

    def track(self, request: Request) -> None:
        """Remember on which connection a request came."""
        connection = request.connection
        client = self._clients.get(connection.id)
        if client is None:
            client = self._clients[connection.id] = _Client(connection)
        client.requests.add(request.id)
        self._connection_of[request.id] = connection.id

    def answer(self, request: Request, message: Any) -> None:
        """Answer a request, unless its client has disconnected."""
        if self.complete(request):
            self._environment.actions.append(Answer(request.id, message))

    def forward(self, request: Request) -> None:
        """Relay a request as it came, unless its client has disconnected."""
        if self.complete(request):
            self._environment.actions.append(Forward(request.id))

    def complete(self, request: Request) -> bool:
        """Forget a request that is answered now; False if its client has disconnected."""
        connection_id = self._connection_of.pop(request.id, None)
        if connection_id is None:
            return False
        self._clients[connection_id].requests.discard(request.id)
        return True

    def connection_of(self, request: Request) -> Connection | None:
        """The connection on which a request waits for its answer; None if its client has disconnected."""
        connection_id = self._connection_of.get(request.id)
        return None if connection_id is None else self.connection(connection_id)

    def is_waiting(self, request: Request) -> bool:
        """Whether a request has no answer yet and the proxy has not read the end of its connection."""
        return request.id in self._connection_of

    def is_still_connected(self, request: Request) -> bool:
        """As :meth:`is_waiting`, and the kernel does not know either that the client has disconnected.

        After a pause of the process or the network, a request may arrive together with the end of its connection. Its
        client may have joined through another process meanwhile, so the request must not count. This is not for
        OffsetCommit and LeaveGroup, which clients send just before they close.
        """
        connection_id = self._connection_of.get(request.id)
        return connection_id is not None and not self._clients[connection_id].connection.peer_closed()

    # -- connections -------------------------------------------------------------------------------------------

    def connection(self, connection_id: ConnectionId) -> Connection | None:
        """The connection; None if its upstream side can't be used any more."""
        client = self._clients.get(connection_id)
        return None if client is None else client.connection

    def is_connected(self, connection_id: ConnectionId | None) -> bool:
        """Whether the client's side of this connection is open, as far as the proxy has read."""
        client = None if connection_id is None else self._clients.get(connection_id)
        return client is not None and client.alive

    def client_disconnected(self, connection_id: ConnectionId) -> None:
        """Handle the client's disconnect. The upstream side stays while members are reached through it."""
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
        """Forget a connection that has ended on both sides; its members are unreachable until their clients return."""
        client = self._clients.pop(connection_id, None)
        if client is None:
            return
        for request_id in client.requests:
            del self._connection_of[request_id]
        for member in client.members:
            member.may_have_moved = True
            member.connection_id = None
            member.group.connected -= 1
            last_join_on = (
                self._clients.get(member.join_answered_on) if member.join_answered_on is not None else None
            )
            if last_join_on is not None and last_join_on.alive:
                self.bind(member, last_join_on.connection)  # as before it was heard on the one that is lost
            else:
                member.deadlines.keep_alive_at = math.inf

    def maybe_release(self, connection_id: ConnectionId) -> None:
        """Release the upstream side if the client has disconnected and nothing else needs it."""
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
        """Reach the member through this connection from now on."""
        if member.connection_id == connection.id:
            return
        self.unbind(member)
        member.connection_id = connection.id
        member.group.connected += 1
        member.client.client_host = connection.client_host
        member.client.software = connection.software
        self._clients[connection.id].members.add(member)

    def record_call(self, member: Member, connection: Connection, generation: int) -> None:
        """Record a request of the member's client: bind the member to its connection, unless the generation is old.

        A request with an older generation was delayed: its client may use another connection by now. One with a newer
        generation is checked with the broker (:mod:`translation.joining.adoption`).
        """
        if generation == member.generation or member.connection_id is None:
            self.bind(member, connection)
        if self._never_left(member, connection):
            member.may_have_moved = False

    def _never_left(self, member: Member, connection: Connection) -> bool:
        """Whether a request on this connection proves that no other process has served the client since its JoinGroup.

        It does on the connection on which the JoinGroup was answered, while that is open: any connection that has
        closed since is an older one.
        """
        return connection.id == member.join_answered_on and self.is_connected(connection.id)

    def unbind(self, member: Member) -> None:
        """Reach the member through no connection."""
        before, member.connection_id = member.connection_id, None
        member.group.connected -= before is not None
        if before is not None and before in self._clients:
            self._clients[before].members.discard(member)
            self.maybe_release(before)

    def is_stale(self, member: Member, request: Request) -> bool:
        """Whether a JoinGroup was delayed, and the client has joined again since on a newer connection.

        The newer connection is still open, or the client is reached on an even newer one, or nobody waits for the older
        JoinGroup any more. The owned partitions that a stale JoinGroup reports are out of date. A static member that
        sends no member id has another id by then.
        """
        holder = member.group.members.get(
            member.group.static_members.get(request.message.group_instance_id or "", "")
        )
        if holder is not None and (holder.client.client_id, holder.last_join_host) == (
            request.client_id,
            request.connection.client_host,
        ):
            member = holder
        last_join_on, newest = member.last_join_on, member.connection_id
        if last_join_on is None or request.connection.id >= last_join_on:
            return False
        if not self.is_still_connected(request):
            return True
        followed = newest is not None and last_join_on < newest
        return self.is_connected(last_join_on) or (followed and self.is_connected(newest))
