"""Who owns a member, as one replica reads the member log, and everything that changes that.

Theory of operation
-------------------
Ownership follows from two things: the record that counts for the member, as far as this replica has read the log, and
the record of the replica's own that it has written and not read back yet. *Own* is a record of any writer that this
process has had.

* ``Unknown``: no record counts.
* ``Claiming``: an own ``served`` is written and not read back. Another's record, none, or an own one may count.
* ``Serving``: an own ``served`` counts. The member's timeouts run here.
* ``Expiring``: an own ``served`` counts, and an own ``expiring`` is written and not read back.
* ``Expired``: ``expiring`` counts. The member id is dead; the broker may still have the member.
* ``Ended``: ``ended`` counts. The member id is dead, and the broker is known not to have the member.
* ``Elsewhere``: another's ``served`` counts.
* ``Relayed``: ``relayed`` counts. The broker itself serves the id, as a classic member.

Two rules hold this file together, as in :mod:`translation.members.member_state`: whatever changes an ownership is in
this file, and this file knows no record, no offset and no time. A pair that is not in the table raises
:class:`IllegalOwnershipChange` and changes nothing. What leads from a dead id is ``ended``, the passing of time, and
the loss of the log; nothing else does. The diagram in ``docs/explanation/fleet.md`` is generated from the table
(``python -m tools.docs``).
"""

from collections.abc import Mapping
from enum import StrEnum


class Ownership(StrEnum):
    """Who owns a member, by the member log, at one replica."""

    UNKNOWN = "Unknown"
    CLAIMING = "Claiming"
    SERVING = "Serving"
    EXPIRING = "Expiring"
    EXPIRED = "Expired"
    ENDED = "Ended"
    ELSEWHERE = "Elsewhere"
    RELAYED = "Relayed"


class OwnershipEvent(StrEnum):
    """What can happen to a member in the log."""

    CLAIM_WRITTEN = "served written"
    EXPIRING_WRITTEN = "expiring written"
    OWN_SERVED_COUNTS = "own served counts"
    OTHER_SERVED_COUNTS = "another's served counts"
    EXPIRING_COUNTS = "expiring counts"
    ENDED_COUNTS = "ended counts"
    RELAYED_COUNTS = "relayed counts"
    NOTHING_COUNTS = "no record counts"
    LOG_LOST = "log lost"


class IllegalOwnershipChange(Exception):
    """An event was reported that can't happen to a member of this ownership."""

    def __init__(self, ownership: Ownership, event: OwnershipEvent) -> None:
        super().__init__(f"{event.value!r} can't happen to a member whose ownership is {ownership.value}")


_S, _E = Ownership, OwnershipEvent

OWNERSHIPS: Mapping[Ownership, Mapping[OwnershipEvent, Ownership]] = {
    _S.UNKNOWN: {
        _E.CLAIM_WRITTEN: _S.CLAIMING,
        # Of an earlier call, for which nobody waits any more.
        _E.OWN_SERVED_COUNTS: _S.SERVING,
        _E.OTHER_SERVED_COUNTS: _S.ELSEWHERE,
        _E.EXPIRING_COUNTS: _S.EXPIRED,
        _E.ENDED_COUNTS: _S.ENDED,
        _E.RELAYED_COUNTS: _S.RELAYED,
        _E.LOG_LOST: _S.UNKNOWN,
    },
    _S.CLAIMING: {
        _E.OWN_SERVED_COUNTS: _S.SERVING,
        # A claim that is still wanted is written again, and the member is Claiming again.
        _E.OTHER_SERVED_COUNTS: _S.ELSEWHERE,
        _E.RELAYED_COUNTS: _S.RELAYED,
        _E.EXPIRING_COUNTS: _S.EXPIRED,
        _E.ENDED_COUNTS: _S.ENDED,
        # The producer was replaced before it was read back, so whether it will count is unknown.
        _E.NOTHING_COUNTS: _S.UNKNOWN,
        _E.LOG_LOST: _S.UNKNOWN,
    },
    _S.SERVING: {
        # On a new connection of the client, or so that the record does not grow too old.
        _E.CLAIM_WRITTEN: _S.CLAIMING,
        _E.EXPIRING_WRITTEN: _S.EXPIRING,
        _E.OWN_SERVED_COUNTS: _S.SERVING,
        _E.OTHER_SERVED_COUNTS: _S.ELSEWHERE,
        # Written by this process before its producer was replaced, or by another that had taken the member over.
        _E.EXPIRING_COUNTS: _S.EXPIRED,
        _E.ENDED_COUNTS: _S.ENDED,
        _E.RELAYED_COUNTS: _S.RELAYED,
        _E.NOTHING_COUNTS: _S.UNKNOWN,
        _E.LOG_LOST: _S.UNKNOWN,
    },
    _S.EXPIRING: {
        _E.EXPIRING_COUNTS: _S.EXPIRED,
        _E.OTHER_SERVED_COUNTS: _S.ELSEWHERE,
        _E.ENDED_COUNTS: _S.ENDED,
        _E.RELAYED_COUNTS: _S.RELAYED,
        # The producer was replaced before it was read back; or a served whose delivery had failed landed before it.
        _E.OWN_SERVED_COUNTS: _S.SERVING,
        _E.NOTHING_COUNTS: _S.UNKNOWN,
        _E.LOG_LOST: _S.UNKNOWN,
    },
    _S.EXPIRED: {
        _E.ENDED_COUNTS: _S.ENDED,
        _E.NOTHING_COUNTS: _S.UNKNOWN,
        _E.LOG_LOST: _S.UNKNOWN,
    },
    _S.ENDED: {
        _E.ENDED_COUNTS: _S.ENDED,
        _E.NOTHING_COUNTS: _S.UNKNOWN,
        _E.LOG_LOST: _S.UNKNOWN,
    },
    _S.ELSEWHERE: {
        _E.CLAIM_WRITTEN: _S.CLAIMING,
        _E.OTHER_SERVED_COUNTS: _S.ELSEWHERE,
        # Of an earlier call: its delivery had failed, and it landed all the same.
        _E.OWN_SERVED_COUNTS: _S.SERVING,
        _E.EXPIRING_COUNTS: _S.EXPIRED,
        _E.ENDED_COUNTS: _S.ENDED,
        _E.RELAYED_COUNTS: _S.RELAYED,
        _E.NOTHING_COUNTS: _S.UNKNOWN,
        _E.LOG_LOST: _S.UNKNOWN,
    },
    _S.RELAYED: {
        _E.CLAIM_WRITTEN: _S.CLAIMING,
        _E.RELAYED_COUNTS: _S.RELAYED,
        _E.OTHER_SERVED_COUNTS: _S.ELSEWHERE,
        _E.OWN_SERVED_COUNTS: _S.SERVING,
        _E.EXPIRING_COUNTS: _S.EXPIRED,
        _E.ENDED_COUNTS: _S.ENDED,
        _E.NOTHING_COUNTS: _S.UNKNOWN,
        _E.LOG_LOST: _S.UNKNOWN,
    },
}


class OwnershipMachine:
    """The ownership of one member; the only thing in the project that changes it."""

    __slots__ = ("ownership",)

    def __init__(self) -> None:
        self.ownership = Ownership.UNKNOWN

    def handle(self, event: OwnershipEvent) -> Ownership:
        """Go through the table and return the new ownership.

        :raises IllegalOwnershipChange: the event can't happen in the present ownership.
        """
        try:
            self.ownership = OWNERSHIPS[self.ownership][event]
        except KeyError:
            raise IllegalOwnershipChange(self.ownership, event) from None
        return self.ownership
