"""Finds a connection of a group's own members for queries to brokers about it, and carries the queries of
:mod:`proxy.groups` over it.

A broker describes a group only to a principal that may see it. The proxy has no credentials of its own, so it sends its
queries on a connection on which the broker has accepted calls for that group.
"""

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec

from proxy.groups.broker_queries import BrokerQuery
from translation.actions import Call, CallId, Connection, ConnectionId, Request
from translation.policy.policy import LONGEST_GROUP_ID

if TYPE_CHECKING:
    from proxy.connection.session_shell import SessionShell

_MAX_GROUPS_PER_CONNECTION = 100
"""The most groups that are remembered for one connection; a client may name as many as it likes."""


class _Route(msgspec.Struct, frozen=True):
    """The connection of the last call for a group."""

    shell: "SessionShell"
    connection: Connection
    client_id: str | None


class _Query(msgspec.Struct, frozen=True):
    """A query in flight, and the callback for its response."""

    connection_id: ConnectionId
    on_response: Callable[[Any], None]


class GroupRoutes:
    """The routes of one process. Query ids are negative, so that they differ from the translator's call ids."""

    def __init__(self) -> None:
        self._routes: dict[str, _Route] = {}
        self._groups_on: dict[ConnectionId, set[str]] = {}
        self._queries: dict[CallId, _Query] = {}
        self._query_ids = count(-1, -1)

    @property
    def queries_in_flight(self) -> int:
        """How many queries the broker has not answered yet."""
        return len(self._queries)

    def leads_to(self, group_id: str, shell: "SessionShell") -> bool:
        """Whether the last call for the group came on this connection."""
        route = self._routes.get(group_id)
        return route is not None and route.shell is shell

    def connection_id(self, group_id: str) -> ConnectionId | None:
        """The connection on which queries about a group go; None if there is none."""
        route = self._routes.get(group_id)
        return None if route is None else route.connection.id

    def remember(self, shell: "SessionShell", request: Request) -> None:
        """Remember the connection of a call that the broker accepts, for its group."""
        connection = request.connection
        group_id = request.message.group_id
        groups = self._groups_on.setdefault(connection.id, set())
        if len(groups) < _MAX_GROUPS_PER_CONNECTION and len(group_id) <= LONGEST_GROUP_ID:
            self._routes[group_id] = _Route(shell, connection, request.client_id)
            groups.add(group_id)

    def groups_on(self, connection_id: ConnectionId) -> frozenset[str]:
        """The groups whose members have heartbeated on a connection."""
        return frozenset(self._groups_on.get(connection_id, ()))

    def forget(self, connection_id: ConnectionId) -> None:
        """Forget a connection that is closed; queries in flight on it stay unanswered."""
        for group_id in self._groups_on.pop(connection_id, ()):
            route = self._routes.get(group_id)
            if route is not None and route.connection.id == connection_id:  # else another connection is newer
                del self._routes[group_id]
        lost = [query_id for query_id, one in self._queries.items() if one.connection_id == connection_id]
        for query_id in lost:
            del self._queries[query_id]

    def ask(
        self,
        group_id: str,
        make_query: Callable[[Connection], BrokerQuery | None],
        on_response: Callable[[Any], None],
    ) -> bool:
        """See :class:`proxy.groups.broker_queries.BrokerQueries`."""
        route = self._routes.get(group_id)
        query = None if route is None else make_query(route.connection)
        if route is None or query is None:
            return False
        query_id = CallId(next(self._query_ids))
        self._queries[query_id] = _Query(route.connection.id, on_response)
        route.shell.call(
            Call(query.api_key, query.version, query.message, route.client_id, route.connection.id, query_id)
        )
        return True

    def answered(self, query_id: CallId, message: Any) -> None:
        """Give a broker's response to the query's callback; the query may have been forgotten meanwhile."""
        if (query := self._queries.pop(query_id, None)) is not None:
            query.on_response(message)
