"""The topic of the member log in a run of several replicas: one partition at the broker, and each replica's way to it.

The real :class:`~translation.member_log.member_log.MemberLog` decides. What is simulated is what lies around it in a
process (``proxy.member_log``) and at the broker: records land after a delay, in the order of their producer; every
replica reads all of them, in the order of the log, each with delays of its own. Either way may be shut for a while, for
one replica or for all. A delivery that takes too long fails, and its records may land all the same.
"""

import math
import random
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from tests.simulation.kernel import Kernel
from tests.translation.member_log.model import Entry, Log, Seen
from translation.member_log.formats import FORMATS
from translation.member_log.group_records import (
    GroupKey,
    GroupRecord,
    decode_group_key,
    decode_group_value,
    is_group_key,
)
from translation.member_log.member_log import MemberLog
from translation.member_log.outputs import Health, Output, WriteRecord
from translation.member_log.records import MemberKey, MemberRecord, Writer, decode_key
from translation.member_log.settings import FleetSettings

if TYPE_CHECKING:
    from tests.simulation.fleet.watch_log import LogWatch

GIVES_UP_MS = 60_000
"""``message.timeout.ms`` of the producers."""
REPLACE_EVERY_MS = 5_000
"""A producer is replaced at most so often (``proxy.member_log.driver``)."""
_SKIPPED = 0.25
"""In so many outages of the log it can be written and read, and what is written does not count."""
_EPOCH_MS = 10**12
"""The broker's clock when a run begins."""


class LogTopic:
    """The one partition, and who reads it. What is drawn for it changes nothing else in the run."""

    def __init__(self, kernel: Kernel, watch: "LogWatch", seed: int) -> None:
        self.kernel = kernel
        self.random = random.Random(f"log {seed}")  # noqa: S311  reproducible on purpose
        self.log = Log()
        self.watch = watch
        self.ways: list[LogWay] = []
        self.away_until_ms = 0
        """Nobody reads or writes it before."""
        self.skipped_until_ms = 0
        """What is written before is skipped by all."""
        self._seed = seed
        self._writers = 0

    def new_writer(self) -> Writer:
        """Return the name of a new producer object."""
        self._writers += 1
        return Writer(b"%016d" % self._writers)

    def delay_ms(self) -> int:
        return self.random.choice((1, 2, 5, 5, 20, 100))

    def keeps_what_failed(self) -> bool:
        """Whether what a replaced producer had on its way lands all the same."""
        return self.random.random() >= 0.5

    def pauses_reading(self) -> bool:
        """Whether a reader takes the rest later."""
        return self.random.random() < 0.3

    def go_away(self, for_ms: int) -> None:
        """Nobody reads or writes it for so long; or everybody skips what is written, which has no time of the broker.

        The topic has another timestamp type then.
        """
        chance = random.Random(f"timestamps {self._seed} {self.kernel.now_ms}")  # noqa: S311  reproducible on purpose
        if chance.random() < _SKIPPED:
            self.watch.skips_what_is_written()
            self.skipped_until_ms = self.kernel.now_ms + for_ms
            return
        self.away_until_ms = self.kernel.now_ms + for_ms
        for way in self.ways:
            way.cannot_read_until_ms = way.cannot_write_until_ms = self.away_until_ms

    def carry(self, way: "LogWay", queue: "deque[Written]", at_ms: int) -> None:
        """Take the last record of a producer's queue to the log by then."""
        self.kernel.at(at_ms, way.land, queue, queue[-1])

    def wake(self, way: "LogWay", at_ms: int) -> None:
        """Have a replica read then."""
        self.kernel.at(at_ms, way.read)

    def append(self, written: "Written") -> None:
        """Let a record land, and have everybody read it. One that was on its way for too long is refused."""
        self.log.now_ms = _EPOCH_MS + self.kernel.now_ms
        if self.kernel.now_ms < self.skipped_until_ms:
            for way in self.ways:
                way.skip(written)
            return
        if written.record is not None and self.log.is_late(written.seen):
            return
        entry = self.log.append(written.key, written.writer, written.record, written.seen)
        self.watch.landed(self, entry)
        for way in self.ways:
            way.read_soon()


class Written(NamedTuple):
    """A record that was produced and has not landed."""

    at_ms: int
    key: MemberKey | GroupKey
    writer: Writer
    record: MemberRecord | GroupRecord | None
    seen: Seen


class LogWay:
    """One boot of a replica at the log: its member log, its producer and its consumer.

    ``boot`` is its replica's name, and the number of this start; ``now_s`` the clock of its process. ``tell`` gets what
    the member log says, but for what is written. ``later`` is asked before anything is done: a process that stands
    still does it when it goes on.
    """

    def __init__(
        self,
        topic: LogTopic,
        boot: tuple[str, int],
        now_s: Callable[[], float],
        tell: Callable[[list[Output]], None],
        later: Callable[..., bool],
    ) -> None:
        self.topic = topic
        self.boot = boot
        self.name = boot[0]
        self.is_alive = True
        self.cannot_read_until_ms = self.cannot_write_until_ms = topic.away_until_ms
        self.writer = topic.new_writer()
        self._kernel = topic.kernel
        self._now_s = now_s
        self._tell = tell
        self._later = later
        self._queue: deque[Written] = deque()
        self._position = 0
        self._replaced_ms = -(10**9)
        self._reads_at_ms = math.inf
        self._looks_at_ms = math.inf
        self.log = MemberLog(FleetSettings(partitions=1, server=self.name), self.writer, now_s())
        topic.ways.append(self)
        self.log.replay_to(0, topic.log.end, now_s())

    def start(self) -> None:
        """Begin to read."""
        self.carry_out()
        self.read_soon()

    def end(self) -> None:
        """The process dies. What it has produced is on its way."""
        self.is_alive = False
        self.topic.ways.remove(self)

    # -- what the member log says ----------------------------------------------------------------------------------

    def carry_out(self) -> None:
        """Produce what the member log writes, and tell the rest."""
        said: list[Output] = []
        for output in self.log.outputs():
            if isinstance(output, WriteRecord):
                self._produce(output)
            else:
                said.append(output)
        self._book()
        if said:
            self._tell(said)

    def _produce(self, output: WriteRecord) -> None:
        if is_group_key(output.key):
            self._produce_group(output)
            return
        key, writer = decode_key(output.key)
        record = None if output.value is None else FORMATS[output.format].decode(output.value)
        present = self.log._members.partitions[0].view.get(key)
        self._send(key, writer, record, present and present.offset)

    def _produce_group(self, output: WriteRecord) -> None:
        assert output.value is not None
        key, writer = decode_group_key(output.key)
        present = self.log.groups.of_group(key.group_id).get(key.name)
        self._send(key, writer, decode_group_value(output.value), present and present.offset)

    def _send(
        self,
        key: MemberKey | GroupKey,
        writer: Writer,
        record: MemberRecord | GroupRecord | None,
        present: int | None,
    ) -> None:
        if writer != self.writer:
            return  # for a producer of before
        view = self.log._members.partitions[0].view
        seen = Seen(present, view.position, view.newest_ms)
        self.topic.watch.written(self, key, record, any(one.key == key for one in self._queue))
        now_ms = self._kernel.now_ms
        at_ms = max(now_ms, self.cannot_write_until_ms) + self.topic.delay_ms()
        if self._queue:
            at_ms = max(at_ms, self._queue[-1].at_ms)  # a producer keeps the order
        written = Written(at_ms, key, writer, record, seen)
        self._queue.append(written)
        self.topic.carry(self, self._queue, at_ms)
        if at_ms > now_ms + GIVES_UP_MS:
            self._kernel.after(GIVES_UP_MS, self.fail, writer)

    def land(self, queue: deque[Written], written: Written) -> None:
        """A record of this producer's queue lands, unless the queue was given up."""
        if queue and queue[0] is written:
            queue.popleft()
            self.topic.append(written)

    def under_way(self, key: MemberKey) -> list[Written]:
        """What it has produced of a member that has not landed."""
        return [written for written in self._queue if written.key == key]

    def must_wait(self, key: MemberKey) -> bool:
        """Whether nothing more can be written of a member at the moment."""
        return not self.is_ready or key in self.log._writes.unresolved

    def fail(self, writer: Writer | None = None) -> None:
        """The outcome of what this producer has not delivered is unknown; some of it lands all the same."""
        if not self.is_alive or writer not in (None, self.writer) or self._later(self.fail, writer):
            return
        if self._kernel.now_ms - self._replaced_ms < REPLACE_EVERY_MS:
            self._kernel.at(self._replaced_ms + REPLACE_EVERY_MS, self.fail, self.writer)
            return
        self._replaced_ms = self._kernel.now_ms
        self._replace_producer()
        self.log.replace_writer(self.writer, self._now_s())
        self.carry_out()

    def _replace_producer(self) -> None:
        if not self.topic.keeps_what_failed():
            self._queue.clear()
        self._queue = deque()
        self.writer = self.topic.new_writer()

    def lose(self) -> None:
        """Its consumer is told that the log was truncated, and begins anew."""
        if not self.is_alive or self._later(self.lose):
            return
        self._replace_producer()
        self._position = 0
        self.log.lose(0, self.writer, self._now_s())
        self.log.replay_to(0, self.topic.log.end, self._now_s())
        self.carry_out()
        self.read_soon()

    # -- reading ---------------------------------------------------------------------------------------------------

    def read_soon(self) -> None:
        """Read what there is, after a delay of its own."""
        at_ms = max(self._kernel.now_ms, self.cannot_read_until_ms) + self.topic.delay_ms()
        if at_ms < self._reads_at_ms:
            self._reads_at_ms = at_ms
            self.topic.wake(self, at_ms)

    def read(self) -> None:
        """Read what there is, or a part of it."""
        self._reads_at_ms = math.inf
        if not self.is_alive or self._later(self.read):
            return
        if self.cannot_read_until_ms > self._kernel.now_ms:
            self.read_soon()
            return
        while self.has_more():
            self.read_one()
            if self.topic.pauses_reading():
                self.read_soon()
                return

    def sleeps(self) -> None:
        """Nothing is booked that makes it read."""
        self._reads_at_ms = math.inf

    def has_more(self) -> bool:
        """Whether there is a record that it has not read."""
        return self.topic.log.next_from(self._position) is not None

    def read_one(self) -> None:
        """Read the next record."""
        entry = self.topic.log.next_from(self._position)
        assert entry is not None
        self._position = entry.offset + 1
        self._take(entry)
        self.topic.watch.has_read(self, entry.offset)
        self.carry_out()

    def skip(self, written: Written) -> None:
        """A record has no time of the broker: all replicas skip it, as soon as they can."""
        if self.is_alive and written.record is None and not self._later(self.skip, written):
            self.log.skip_probe(0, written.writer, self._position - 1, self._now_s())
            self.carry_out()

    def _take(self, entry: Entry) -> None:
        if entry.record is None:
            self.log.read_probe(0, entry.writer, entry.offset, entry.appended_ms, self._now_s())
        elif isinstance(entry.key, GroupKey):
            self.log.read_group(0, entry.key, entry.stored_group)
        else:
            self.log.read(0, entry.key, entry.stored, self._now_s())

    # -- time ------------------------------------------------------------------------------------------------------

    def look_at_time(self) -> None:
        """Let the member log do what is due; also after the clock has jumped."""
        if self.is_alive and not self._later(self.look_at_time):
            if self.log.next_deadline() <= self._now_s():
                self.log.handle_time(self._now_s())
            self.carry_out()

    def _book(self) -> None:
        wait_s = self.log.next_deadline() - self._now_s()
        if wait_s == math.inf:
            return
        at_ms = self._kernel.now_ms + max(1, math.ceil(round(wait_s * 1000, 6)))
        if at_ms < self._looks_at_ms:
            self._looks_at_ms = at_ms
            self._kernel.at(at_ms, self._look, at_ms)

    def _look(self, at_ms: int) -> None:
        if at_ms == self._looks_at_ms:
            self._looks_at_ms = math.inf
            self.look_at_time()

    @property
    def is_ready(self) -> bool:
        """Whether it has read the log and can write it."""
        return self.log.health(0) is Health.READY
