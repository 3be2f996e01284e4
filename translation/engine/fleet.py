"""What this process may do for its members, as far as the member log says: everything, if it has no member log.

Each of several replicas has a member log (:mod:`translation.fleet`), by which they agree which of them serves a member,
and whether the member is ended. The rest of the translation asks here and needs not know whether there is one.
"""

from translation.actions import ConnectionId
from translation.fleet.member_log import MemberLog


class Fleet:
    """The member log of this process (None: it shares its groups with no other that has one), asked about members."""

    def __init__(self, log: MemberLog | None) -> None:
        self.log = log

    def lapse(self, connection_id: ConnectionId) -> None:
        """A connection is closed, or its broker does not coordinate the group any more: it confirms nothing now."""
        if self.log is not None:
            self.log.lapse(connection_id)
