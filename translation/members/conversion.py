"""What one process does to convert a live classic group in place: its helper member, and when its members vote.

A broker converts a classic group when the first member of the new protocol joins. In place no client joins, so a
*helper* does: a member without topics, which the broker assigns nothing. It leaves last: its end moves the group epoch
once, and the broker computes the assignment anew (:mod:`translation.conversion.helper`).

As long as classic members are left, each move of the group epoch makes all of them rejoin. So the members that are
converted vote for no assignor before the last classic member is converted (``votes``): since Kafka 4.4 a vote moves the
group epoch (KAFKA-20434).
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from translation.actions import ConnectionId
from translation.members.procedure import ProcedureQueue

if TYPE_CHECKING:
    from translation.members.member import Group

HELPER_PREFIX = "helper-epochgate-"
"""What the member ids of helpers begin with; their client id is :data:`HELPER_CLIENT_ID`."""

HELPER_CLIENT_ID = "epochgate-helper"


def is_helper(member_id: str) -> bool:
    """Whether a member of the new protocol is the helper of some process of Epochgate."""
    return member_id.startswith(HELPER_PREFIX)


class Conversion:
    """The conversion of one group, and its way back; times are seconds of the caller's clock."""

    __slots__ = (
        "_on_time",
        "began_at",
        "changed_at",
        "connection_id",
        "described_at",
        "group",
        "has_left",
        "helper_epoch",
        "helper_id",
        "is_joining",
        "is_return",
        "queue",
        "reached_at",
        "stands_in",
        "stays",
        "timer_at",
        "votes",
    )

    def __init__(
        self, group: "Group", connection_id: ConnectionId, now: float, on_time: Callable[["Conversion"], None]
    ) -> None:
        self._on_time = on_time
        self.group = group
        self.connection_id = connection_id
        """The connection on which the helper was heard last."""
        self.helper_id = ""
        """The helper's member id; empty if another process has a helper in the group, or its first heartbeat is under
        way."""
        self.helper_epoch = 0
        self.is_joining = False
        """Whether a helper's first heartbeat is under way."""
        self.queue = ProcedureQueue()
        self.timer_at = math.inf
        self.began_at = now
        self.changed_at = now
        """When a member was converted last, or went back."""
        self.reached_at = now
        """When a connection for the helper was there last."""
        self.described_at = -math.inf
        self.is_return = False
        """Whether it began on the way back."""
        self.has_left = False
        """Whether its helper has left on the way back, so that the group should be a classic one."""
        self.stands_in = False
        """Whether its helper is in the place of the last member of the new protocol, which ended while classic members
        lagged behind."""
        self.stays = False
        """On the way back: whether it stays a consumer group for now, because native members are in it."""
        self.votes = False
        """Whether no classic member is left, so that members may vote for an assignor."""

    def on_time(self, _now: float) -> None:
        """A booked time has come: the helper's heartbeat is due."""
        self._on_time(self)
