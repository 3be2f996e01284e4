"""How the proxy's operators' views ask brokers about a group, without knowing on which connection."""

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from protocol_codecs import Message
from translation.actions import Connection


class BrokerQuery(msgspec.Struct, frozen=True):
    """A request that asks a broker something."""

    api_key: int
    version: int
    message: Message


class BrokerQueries(Protocol):
    """Sends such requests on the connections of the groups' own members.

    The principal of such a connection may describe the group, and no connection more is opened.
    """

    def ask(
        self,
        group_id: str,
        make_query: Callable[[Connection], BrokerQuery | None],
        on_response: Callable[[Any], None],
    ) -> bool:
        """Ask a broker something about a group, on the connection of one of its members.

        ``question`` is given the connection and makes the request, None if its broker can't answer it. ``tell`` is
        given the answer; it is not called if the connection ends before. False if nobody can be asked.
        """
