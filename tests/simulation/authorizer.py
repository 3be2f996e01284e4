"""Authorizes requests at the simulated broker, by the rules of Kafka's StandardAuthorizer.

Each connection has one :class:`Principal`, and the upstream connection that the proxy opens for it has the same one,
because SASL passes through the proxy.
"""

from typing import Any

import msgspec

from protocol_codecs import ApiKey, ErrorCode
from tests.simulation.wire import Ask

OPEN_GROUP = "open-to-all"
"""A group on which every principal has READ, unlike the one that the clients are in."""

_NEEDS_READ = frozenset(
    {
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.OFFSET_COMMIT,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
    }
)
_NEEDS_DESCRIBE = frozenset({ApiKey.OFFSET_FETCH, ApiKey.DESCRIBE_GROUPS, ApiKey.CONSUMER_GROUP_DESCRIBE})


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """The principal of a connection. READ on the clients' group includes DESCRIBE, as in Kafka."""

    name: str
    is_authenticated: bool = True
    """If not, the broker closes the connection at its first request."""
    reads_group: bool = True
    describes_group: bool = True
    hidden_topics: frozenset[str] = frozenset()
    """Topics that it may not DESCRIBE."""


ALICE = Principal(name="alice")
"""The honest clients."""

TRUDY = Principal(name="trudy", hidden_topics=frozenset({"refunds"}))
"""Has READ on the group, and may not describe one of the topics."""

OSCAR = Principal(name="oscar", reads_group=False)
"""May look at the group, and not take part in it."""

MALLORY = Principal(name="mallory", reads_group=False, describes_group=False)
"""Has no rights at all."""

NOBODY = Principal(name="nobody", is_authenticated=False, reads_group=False, describes_group=False)
"""Has not authenticated."""

PRINCIPALS = {one.name: one for one in (ALICE, TRUDY, OSCAR, MALLORY, NOBODY)}


def why_refused(principal: Principal, ask: Ask) -> ErrorCode | None:
    """Return the error code with which the broker refuses this request before it reaches the group, or None."""
    may_read = principal.reads_group or getattr(ask.message, "group_id", "") == OPEN_GROUP
    may_describe = principal.describes_group or principal.reads_group
    if (ask.api_key in _NEEDS_READ and not may_read) or (ask.api_key in _NEEDS_DESCRIBE and not may_describe):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    if ask.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT:
        names = ask.message.subscribed_topic_names or ()
        if not principal.hidden_topics.isdisjoint(names):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return None


def names_a_hidden_topic(principal: Principal, described: Any) -> bool:
    """Whether a described group has a topic that this principal may not describe, which hides all members.

    ``described`` is one of a ConsumerGroupDescribe response's groups.
    """
    if not principal.hidden_topics:
        return False
    named = {name for member in described.members for name in member.subscribed_topic_names}
    for member in described.members:
        for assignment in (member.assignment, member.target_assignment):
            named.update(topic.topic_name for topic in assignment.topic_partitions)
    return not principal.hidden_topics.isdisjoint(named)
