"""The rebalance timeout of a client: which number it is, which one the broker is told, and from when it runs.

A classic client has this long to rejoin once it was answered REBALANCE_IN_PROGRESS (in Java it is
``max.poll.interval.ms``), and the proxy holds it to that itself: the timeout is started here, JoinGroup and SyncGroup
stop it, and :mod:`translation.membership.expiry` ends the membership when it has run out.

In the new protocol a member has this long to give up what the broker withdraws (KIP-848). The
broker counts from its own answer, but the client learns of the change at its next Heartbeat, up to a session timeout
later. So the broker is told more, and never removes a member that is within its classic contract.
"""

from protocol_codecs.messages.join_group import JoinGroupRequest
from translation.members.member import Member
from translation.members.member_parts import Client

_MAX_INT32 = 2**31 - 1


def of_client_ms(message: JoinGroupRequest) -> int:
    """The rebalance timeout that a JoinGroup declares; one of v0 declares none, and its session timeout counts."""
    return message.session_timeout_ms if message.rebalance_timeout_ms < 0 else message.rebalance_timeout_ms


def told_to_broker_ms(client: Client, margin_ms: int) -> int:
    """The rebalance timeout in the member's ConsumerGroupHeartbeat: the client's, its session timeout and a margin."""
    return min(client.rebalance_timeout_ms + client.session_timeout_ms + margin_ms, _MAX_INT32)


def start(member: Member, now: float) -> None:
    """Start the rebalance timeout: the client has so long, from now on, for its next call of the rebalance."""
    member.deadlines.rebalance_deadline = now + member.client.rebalance_timeout_ms / 1000
