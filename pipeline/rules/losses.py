"""What is missing in a journal: the numbers of a process's events that never came, and processes that came twice."""

from collections.abc import Iterable
from typing import NamedTuple

_OF_TOPIC = "-topic"

Process = tuple[str, str]
"""Replica and boot."""


class Loss(NamedTuple):
    """Sequence numbers ``first_seq`` to ``last_seq`` are missing; they were written between these two times."""

    replica: str
    boot: str
    first_seq: int
    last_seq: int
    from_us: int
    to_us: int

    @property
    def events(self) -> int:
        """Return how many events are missing."""
        return self.last_seq - self.first_seq + 1


def of_two_sources(processes: Iterable[Process]) -> str | None:
    """Return what to tell whoever gave a journal with both the files and the topic of one process; None if it has not.

    Both have the same events under their own sequence numbers, so everything would count twice. A topic beside files
    has the boot of the files with the suffix ``-topic``.
    """
    known = set(processes)
    for replica, boot in sorted(known):
        if boot.endswith(_OF_TOPIC) and (replica, boot.removesuffix(_OF_TOPIC)) in known:
            return (
                f"the journal has the events of {replica} both from its files and from its topic, so each is there "
                "twice: read one of them"
            )
    return None


def merged(losses: Iterable[Loss]) -> list[Loss]:
    """Return one loss for each process, from the beginning of its first to the end of its last."""
    found: dict[Process, Loss] = {}
    for loss in losses:
        process = loss.replica, loss.boot
        known = found.get(process, loss)
        found[process] = known._replace(
            last_seq=loss.last_seq,
            from_us=min(known.from_us, loss.from_us),
            to_us=max(known.to_us, loss.to_us),
        )
    return list(found.values())
