"""Which replica hosts a group (``mode: host``, an experiment), by the member log.

Theory of operation
-------------------
A group has at most one host, and while it has one its members are not at the broker. The record ``host`` of a group is
a compare-and-set like all others (:mod:`translation.member_log.counting`), so all replicas agree whose record counts.
But a replica may act for a while on what it has read before it reads on. Two rules bound that, without clocks that
agree:

* **Nobody acts on old news.** A replica acts on what it has read of a group, as its host or because nobody hosts it,
  only if it has read back a probe that it wrote at most :data:`LEASE_S` ago. It has then read whatever was in the log
  before that probe.
* **Who becomes the host waits.** Its own record counts when it is read back. From then on it waits :data:`HANDOVER_S`,
  more than the lease. Whoever acts on what was before has written its last probe before that record landed, so its
  lease is over by then: the record landed before it was read back.

So no two replicas act as hosts of one group, and none lets somebody join at the broker while another is the host. Both
hold if a second is as long for both to within a fifth, and none goes on with a decision that it made before it was
stopped: what was decided and is under way then is the risk of every coordinator whose process is stopped.

* **The end** of a host that has no members any more is a record too. What it did is over before it is written, so
  whoever reads it may act at once.
* **A dead host** is taken over by whoever is asked for the group when nothing of its writer was read for
  :data:`GONE_MS`. If it is alive after all it reads that it is the host no longer. How long the new host gives nobody
  anything for the sake of the old one's members is not decided here: :meth:`HostLog.took_over` says that it must.
"""

from enum import StrEnum
from typing import NamedTuple

from translation.member_log.group_log import GroupLog
from translation.member_log.group_records import HOST, Host, StoredGroup
from translation.member_log.records import shortened

PROBE_S = 2.0
"""Between two probes of a partition where groups may be hosted."""

LEASE_S = 10.0
"""How long a replica acts on what it has read: several probes may come late."""

HANDOVER_S = 12.5
"""From when a replica has read that it is the host until it acts as such: the lease of all others, by a clock that may
run a fifth faster, and half a second."""

GONE_MS = 10_000
"""A host of which so long nothing was read is gone. It writes a probe every :data:`PROBE_S`."""

RENEW_MS = 3_600_000
"""A host writes its record anew when it is so old. What is older than five days is forgotten."""


class HostSeat(StrEnum):
    """What this replica may do for a group."""

    UNKNOWN = "unknown"
    """Nothing: the log has not been read lately."""
    NOBODY = "nobody"
    """Nobody hosts it."""
    BEGINS = "begins"
    """This replica is the host and has to wait; or it has written that it is over, and has not read that back."""
    HERE = "here"
    """This replica is the host."""
    ELSEWHERE = "elsewhere"
    """Another replica is the host."""


class _Term(NamedTuple):
    """Since when this replica is the host: until which record of its own, and when that was first seen to count."""

    offset: int
    since: float


class HostLog:
    """The hosts of groups, as one replica knows them. Times are in seconds of the translation's clock."""

    def __init__(self, groups: GroupLog) -> None:
        self._groups = groups
        self._terms: dict[str, _Term] = {}
        self._ending: dict[str, int] = {}
        """Groups whose end this replica has written, and the record of its own that it is to replace."""

    def seat(self, group_id: str, now: float) -> HostSeat:
        """What this replica may do for a group now."""
        stored = self.note(group_id, now)
        if self._groups.read_until(group_id) + LEASE_S <= now:
            return HostSeat.UNKNOWN
        if stored is None:
            return HostSeat.NOBODY
        term = self._terms.get(shortened(group_id))
        if term is None:
            return HostSeat.ELSEWHERE
        is_here = now >= term.since + HANDOVER_S and self._ending.get(shortened(group_id)) != term.offset
        return HostSeat.HERE if is_here else HostSeat.BEGINS

    def hosted(self) -> list[str]:
        """The groups of which this replica is the host, shortened as in records."""
        return list(self._terms)

    def note(self, group_id: str, now: float) -> StoredGroup | None:
        """Note whose record counts, and return it; to be called when one is read, so that nobody waits for longer.

        A term goes on only with records that were written for it.
        """
        key, stored = shortened(group_id), self._present(group_id)
        if stored is None or not self._groups.is_by_this_process(stored):
            self._terms.pop(key, None)
            self._ending.pop(key, None)
            return stored
        term = self._terms.get(key)
        if term is None or stored.offset != term.offset:
            goes_on = (
                term is not None and not stored.record.first and stored.record.version == term.offset + 1
            )
            self._terms[key] = _Term(stored.offset, term.since if goes_on and term is not None else now)
        return stored

    def is_ending(self, group_id: str) -> bool:
        """Whether this replica has written that it is the host no longer, and has not read that back."""
        return shortened(group_id) in self._ending

    def is_named(self, group_id: str) -> bool:
        """Whether some replica is the host, as far as the log is read."""
        return self._present(group_id) is not None

    def took_over(self, group_id: str) -> bool:
        """Whether this replica, the host, follows one that did not say that it was over."""
        stored = self._present(group_id)
        return stored is None or stored.record.host is None or stored.record.host.is_takeover

    def began(self, group_id: str) -> float:
        """When this replica began, or begins, to act as the host."""
        return self._terms[shortened(group_id)].since + HANDOVER_S

    def claim(self, group_id: str, now: float) -> None:
        """Want to be the host, if nobody is, or the one that is has gone. Ask :meth:`seat` what came of it."""
        seat = self.seat(group_id, now)
        stored = self._present(group_id)
        if seat is HostSeat.NOBODY:
            self._write(group_id, now, Host())
        elif (
            seat is HostSeat.ELSEWHERE
            and stored is not None
            and self._groups.silent_ms(group_id, stored.writer) > GONE_MS
        ):
            self._write(group_id, now, Host(is_takeover=True))

    def end(self, group_id: str, now: float) -> None:
        """Be the host no longer: nobody is a member here. To be called again until the seat is another one."""
        self.note(group_id, now)
        term = self._terms.get(shortened(group_id))
        if term is not None:
            self._ending[shortened(group_id)] = term.offset
            self._write(group_id, now, Host(is_over=True))

    def renew(self, now: float) -> None:
        """Write anew what has grown old, and what is under a writer that this process has no more."""
        for group_id in list(self._terms):
            stored = self.note(group_id, now)
            if stored is None or group_id not in self._terms or stored.record.host is None:
                continue
            if group_id in self._ending:
                continue
            is_old = self._groups.now_ms(group_id, now) - stored.appended_ms >= RENEW_MS
            if is_old or stored.writer != self._groups.writer:
                self._write(group_id, now, stored.record.host)

    def _write(self, group_id: str, now: float, host: Host) -> None:
        self._groups.write(group_id, HOST, now, host=host)

    def _present(self, group_id: str) -> StoredGroup | None:
        """The record that names a host; None if nobody is."""
        stored = self._groups.of_group(group_id).get(HOST)
        return None if stored is None or stored.record.host is None or stored.record.host.is_over else stored
