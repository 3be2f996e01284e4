"""The interface for queries to brokers about a group, independent of the connection that carries them."""

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from protocol_codecs import Message
from translation.actions import Connection
from translation.moving.mend import Description


class BrokerQuery(msgspec.Struct, frozen=True):
    """A request to a broker, in this version."""

    api_key: int
    version: int
    message: Message


class BrokerQueries(Protocol):
    """Sends queries over the connections of the groups' own members.

    The principal of such a connection may describe its group, and no further connection is needed.
    """

    def ask(
        self,
        group_id: str,
        make_query: Callable[[Connection], BrokerQuery | None],
        on_response: Callable[[Any], None],
    ) -> bool:
        """Send a query about a group over the connection of one of its members.

        ``make_query`` gets the connection and returns the request, or None if its broker does not support it.
        ``on_response`` gets the response; it is not called if the connection ends first. Returns False if no
        connection can carry the query.
        """

    def described(self, group_id: str, description: Description) -> None:
        """A broker has described a group without an error, in answer to a query."""
