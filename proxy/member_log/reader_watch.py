"""Decides when the reader of the member log is replaced (``epochgate_fleet_reader_replacements_total``): it may be
stuck, and librdkafka does not show it.

librdkafka 2.16 may be left without any broker to connect to, for ever, when a Metadata response that names none and the
end of its connections come together, as while the only broker starts
(https://github.com/confluentinc/librdkafka/issues/5301). A new consumer begins at ``bootstrap.servers`` again.

A stuck reader and brokers that are away look the same from here, so the reader is replaced in both cases: when for a
while nothing was read of a partition that is not ready. Then a probe every few seconds is due there, and the end of the
partition is reported once at least.
"""

import math

from translation.member_log.outputs import Health

PATIENCE_S = 15.0
"""Three probes of a partition that is away. Doubled with each replacement, until the whole log is ready."""
MOST_PATIENCE_S = 60.0


class ReaderWatch:
    """Knows which partitions are not ready, and since when nothing was read of them."""

    def __init__(self, partitions: int, now: float) -> None:
        self._silent_since = dict.fromkeys(range(partitions), now)
        self._replaying = set(range(partitions))
        self._heard_at = now
        self._began = now
        self._patience_s = PATIENCE_S

    def changed(self, partition: int, health: Health, now: float) -> None:
        """A partition is in another health than before."""
        self._replaying.discard(partition)
        if health is Health.READY:
            self._silent_since.pop(partition, None)
            if not self._silent_since:
                self._patience_s = PATIENCE_S
            return
        self._silent_since.setdefault(partition, now)
        if health is Health.REPLAYING:
            self._replaying.add(partition)

    def heard(self, partition: int, now: float) -> None:
        """Something was read of a partition."""
        self._heard_at = now
        if partition in self._silent_since:
            self._silent_since[partition] = now

    def next_deadline(self) -> float:
        """When the reader is to be replaced, if nothing is read until then."""
        silent_since = min(map(self._since, self._silent_since), default=math.inf)
        return max(silent_since, self._began) + self._patience_s

    def _since(self, partition: int) -> float:
        """While the log is replayed, one partition may have to wait for the others."""
        since = self._silent_since[partition]
        return max(since, self._heard_at) if partition in self._replaying else since

    def replaced(self, now: float) -> None:
        """The reader was replaced, and gets more time."""
        self._began = now
        self._patience_s = min(2 * self._patience_s, MOST_PATIENCE_S)
