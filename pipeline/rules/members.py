"""A live member of a group as the rules see it: who serves it, what it owns, and since when that is not known."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pipeline.rules.events import NO_GENERATION, TRANSLATED, Event, Json, text_of
from pipeline.rules.findings import Hold, Partition
from pipeline.rules.lines import ADOPTED
from pipeline.rules.losses import Process
from pipeline.rules.saved import SavedHold, SavedMember


class Silence(NamedTuple):
    """A process that had written its last event, at ``last_us``, when another one took over its member."""

    process: Process
    last_us: int
    taken_us: int


class Member:
    """A live member: the process that serves it, and the partitions that it owns."""

    __slots__ = (
        "end_is_told", "generation", "generation_event", "generation_us", "heard_us", "holds", "owned", "process",
        "protocol", "servers", "silences",
    )  # fmt: skip

    def __init__(self, event: Event) -> None:
        self.process = event.process
        """The process that serves it now."""
        self.servers = [(event.time_us, self.process)]
        self.heard_us = event.time_us
        self.protocol = event.protocol
        self.end_is_told = True
        self.generation = NO_GENERATION
        self.generation_us = event.time_us
        self.generation_event = event.name
        self.owned: Json = "[]"
        self.holds: dict[Partition, Hold] = {}
        self.silences: tuple[Silence, ...] = ()
        """Of those that served it one after another since its last snapshot, the ones that seemed to have ended."""

    @classmethod
    def restored(cls, saved: SavedMember) -> "Member":
        """Return the member as :meth:`saved` gave it."""
        member = cls.__new__(cls)
        member.process = saved.replica, saved.boot
        member.servers = [(us, (replica, boot)) for us, replica, boot in saved.servers]
        member.heard_us = saved.heard_us
        member.protocol = saved.protocol
        member.end_is_told = saved.end_is_told
        member.generation = saved.generation
        member.generation_us = saved.generation_us
        member.generation_event = saved.generation_event
        member.owned = saved.owned
        member.holds = dict(_holds(saved))
        member.silences = tuple(
            Silence((replica, boot), last_us, taken_us) for replica, boot, last_us, taken_us in saved.silences
        )
        return member

    def saved(self, name: str) -> SavedMember:
        """Return all that is known of the member, whose id is ``name``, as plain values."""
        together: dict[tuple[int, str, str | None], list[int]] = {}
        holds = {}
        for (topic, partition), hold in self.holds.items():
            key = hold.number, topic, hold.topic_id
            together.setdefault(key, []).append(partition)
            holds[key] = hold
        return SavedMember(
            name,
            *self.process,
            [(us, *process) for us, process in self.servers],
            self.heard_us,
            self.protocol,
            self.end_is_told,
            self.generation,
            self.generation_us,
            self.generation_event,
            text_of(self.owned),
            [
                SavedHold(topic, topic_id, together[number, topic, topic_id], hold.instance, hold.since_us,
                          hold.event, *hold.process, number)
                for (number, topic, topic_id), hold in holds.items()
            ],
            [(*process, last_us, taken_us) for process, last_us, taken_us in self.silences],
        )  # fmt: skip

    @property
    def taken_us(self) -> int:
        """Return since when that process serves it."""
        return self.servers[-1][0]

    def go_on_to(self, event: Event) -> None:
        """Record that the event's process serves the member from now on."""
        oldest = min((hold.since_us for hold in self.holds.values()), default=event.time_us)
        while len(self.servers) > 1 and self.servers[1][0] < oldest:
            del self.servers[0]
        self.process = event.process
        self.servers.append((event.time_us, self.process))

    def not_known_since(self, last_us: int, taken_us: int) -> None:
        """Record that its process has written nothing after ``last_us``, and another one takes over."""
        self.silences += (Silence(self.process, last_us, taken_us),)
        self.owned = ""  # its next snapshot is read, also one equal to the last: it confirms the holds

    def called(self, event: Event) -> None:
        """Update the member from a call of its client."""
        generation, protocol = event.generation, event.protocol
        self.end_is_told = protocol == TRANSLATED or event.kind != ADOPTED
        if generation > self.generation or protocol != self.protocol:
            self.generation, self.generation_us = generation, event.time_us
            self.generation_event, self.protocol = event.name, protocol

    def served_by(self, from_us: int) -> set[Process]:
        """Return the processes that have served it since this time."""
        ends = [since_us for since_us, _ in self.servers[1:]] + [from_us]
        return {process for (_, process), end_us in zip(self.servers, ends, strict=True) if end_us >= from_us}

    def known(self, last_us_of: Mapping[Process, int], until_us: int) -> tuple[Process, int]:
        """Return who tells what it holds, and when that process wrote last; ``until_us`` if it goes on writing.

        That is the process that serves it, or the first one that had ended when another took over, as long as no
        snapshot has come since. A process that seemed to have ended then may have turned out to be alive.
        """
        for process, _, taken_us in self.silences:
            last_us = last_us_of.get(process, taken_us)
            if last_us < taken_us:
                return process, last_us
        return self.process, last_us_of.get(self.process, until_us)


def _holds(saved: SavedMember) -> Iterator[tuple[Partition, Hold]]:
    for one in saved.holds:
        process = one.replica, one.boot
        hold = Hold(saved.name, one.instance, one.since_us, one.event, process, one.number, one.topic_id)
        for partition in one.partitions:
            yield (one.topic, partition), hold
