"""Remembers who writes the member log, and when a replica counts as silent: for people, no rule of the member log
depends on it.

A member's record names a *writer*, a producer object, and a process may have had several. So each probe says in a
header which process writes it: the first writer that the process has had, and the name of its server. Replicas of a
version without that header are known by their writers.
"""

from collections import OrderedDict
from typing import NamedTuple

from translation.member_log.records import Writer

REPLICA_HEADER = "replica"
"""Header of a probe; its value is made by :func:`replica_header`. Whoever does not know it ignores it."""

SILENT_AFTER_MS = 90_000
"""A replica probes each partition every 30 s, and every 5 s while the log is away."""

GONE_AFTER_MS = 3_600_000
"""A replica that has been silent for so long is not shown any more, though the log names it for members for days."""

_FIRST_BYTES = 16
LONGEST_HEADER = 1024
"""Bytes of the header; of a probe with a longer one it is not read."""
_LIMIT = 10_000


class Replica(NamedTuple):
    """A process that writes the log: the first writer that it has had, and the name of its server for people."""

    first: Writer
    server: str


class Heard(NamedTuple):
    """A replica, and the LogAppendTime of its last probe that was read, in milliseconds; 0: none was."""

    replica: Replica
    at_ms: int


def replica_header(replica: Replica) -> bytes:
    """The value of :data:`REPLICA_HEADER`."""
    return replica.first + replica.server.encode("utf-8", "replace")


class Replicas:
    """The replicas whose probes were read. Of too many writers the one that was heard longest ago is forgotten."""

    def __init__(self) -> None:
        self._by_writer: OrderedDict[Writer, Replica] = OrderedDict()
        self._heard: OrderedDict[Writer, int] = OrderedDict()
        """By the first writer of a replica."""
        self.newest_ms = 0
        """When the last of all these probes was written."""

    def heard(self, writer: Writer, header: bytes | None, appended_ms: int) -> None:
        """A probe is read; ``header`` is its :data:`REPLICA_HEADER`, None without one."""
        replica = Replica(writer, "")
        if header is not None and len(header) >= _FIRST_BYTES:
            name = header[_FIRST_BYTES:].decode("utf-8", "replace")
            replica = Replica(Writer(header[:_FIRST_BYTES]), name)
        self._by_writer[writer] = replica
        self._by_writer.move_to_end(writer)
        self._heard[replica.first] = max(appended_ms, self._heard.get(replica.first, 0))
        self._heard.move_to_end(replica.first)
        if len(self._heard) > _LIMIT:
            self._heard.popitem(last=False)
        self.newest_ms = max(appended_ms, self.newest_ms)
        if len(self._by_writer) > _LIMIT:
            _, dropped = self._by_writer.popitem(last=False)
            # If it has had a later writer, that one's next probe sets it again.
            self._heard.pop(dropped.first, None)

    def knows(self, writer: Writer) -> bool:
        """Whether a probe of this writer was read."""
        return writer in self._by_writer

    def all(self) -> list[Heard]:
        """The replicas, each with its last probe."""
        found = {one.first: one for one in self._by_writer.values()}
        return [Heard(one, self._heard.get(one.first, 0)) for one in found.values()]

    def is_silent(self, heard: Heard) -> bool:
        """Whether a replica's last probe is much older than the last of all."""
        return self.newest_ms - heard.at_ms > SILENT_AFTER_MS

    def is_gone(self, heard: Heard) -> bool:
        """Whether it was silent for so long that people need not know of it."""
        return 0 < heard.at_ms < self.newest_ms - GONE_AFTER_MS

    def count_heard(self) -> int:
        """How many replicas are not silent."""
        return sum(self.newest_ms - at_ms <= SILENT_AFTER_MS for at_ms in self._heard.values())

    def of(self, writer: Writer, server: str) -> Heard:
        """Whose record it is that this writer wrote; ``server`` is what the record says."""
        replica = self._by_writer.get(writer)
        if replica is None:
            return Heard(Replica(writer, server), 0)
        return Heard(Replica(replica.first, replica.server or server), self._heard.get(replica.first, 0))
