"""Formats times and partitions for the status page and the terminal."""

import shlex
import time
from itertools import groupby

from protocol_codecs.messages.connect_protocol import CONNECTOR
from translation.partitions import Role, TopicPartitions, TopicPartitionSet

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_RUN = 2
_MAX_CHARS = 1000
"""Characters of a list of partitions that a person may want to read."""

_ROLE_NAMES = {Role.STANDBY: "standby", Role.WARM_UP: "warm-up"}
"""What is said before tasks that process no records."""


def duration(seconds: float) -> str:
    """Format a duration with at most two significant digits: ``40 ms``, ``3.2 s``, ``5 min``."""
    if seconds < 1:
        return f"{max(0, seconds) * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 2 * _MINUTE:
        return f"{seconds:.0f} s"
    if seconds < 2 * _HOUR:
        return f"{seconds / _MINUTE:.0f} min"
    return f"{seconds / _HOUR:.0f} h" if seconds < 2 * _DAY else f"{seconds / _DAY:.0f} days"


def ago(then: float, now: float) -> str:
    """Format how long ago ``then`` was; both times in seconds."""
    return "just now" if now - then < 1 else f"{duration(now - then)} ago"


def time_of_day(at_s: float) -> str:
    """Format a time (seconds since 1970) as ``14:03:07``, in UTC."""
    return time.strftime("%H:%M:%S", time.gmtime(at_s))


def command_argument(text: str) -> str:
    """Quote a text, which a client may have made up, as the last argument of a command for a shell."""
    quoted = shlex.quote(text)
    return f"-- {quoted}" if text.startswith("-") else quoted


def partitions(listed: TopicPartitions | None) -> str:
    """Format partitions as ranges: ``orders 0-3, 7``; empty for none, ``not known`` for None.

    Tasks are written as Kafka writes their ids: ``0_1, 0_2; standby 1_0`` for Streams, ``orders, orders-0, orders-1``
    for a connector and its tasks. A long list is truncated and ends in ``…``.
    """
    if listed is None:
        return "not known"
    text = "; ".join(map(_set, listed))
    return text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}…"


def count_partitions(listed: TopicPartitions | None) -> int:
    """Return the number of partitions; 0 if they are not known."""
    return sum(len(one.partitions) for one in listed or ())


def _set(one: TopicPartitionSet) -> str:
    if one.role is Role.PARTITION:
        return f"{one.topic or one.id} {_runs(one.partitions)}"
    if one.role is Role.CONNECT:
        return ", ".join(
            one.topic if index == CONNECTOR else f"{one.topic}-{index}" for index in one.partitions
        )
    tasks = ", ".join(f"{one.topic}_{index}" for index in one.partitions)
    return f"{_ROLE_NAMES[one.role]} {tasks}" if one.role in _ROLE_NAMES else tasks


def _runs(indexes: tuple[int, ...]) -> str:
    runs = []
    for _, same in groupby(enumerate(sorted(indexes)), key=lambda pair: pair[1] - pair[0]):
        run = [index for _, index in same]
        runs.append(f"{run[0]}-{run[-1]}" if len(run) > _RUN else ", ".join(map(str, run)))
    return ", ".join(runs)
