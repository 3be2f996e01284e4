"""Lines of a journal that anybody may have written, and what a child of the proxy may send (see ``targets``)."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import msgspec

from pipeline.rules.commits import Commits
from pipeline.rules.events import NO_GENERATION, Event
from pipeline.rules.lines import Line, owned_text, parse_line
from pipeline.rules.ownership import GroupOwnership
from pipeline.rules.shard import split
from protocol_codecs.foreign import Undecodable
from proxy.member_log.log_events import EndReached, Noted
from proxy.member_log.log_messages import ENCODER, REPORTS
from proxy.runtime.frames import BadFrame, FrameSplitter, framed

T = TypeVar("T")
_DEEP = 400


def read_line(data: bytes) -> None:
    """A line is the same for every reader, however deep its stack is, and the rules take whatever is one."""
    event = parse_line(data)
    if _said(event) != _said(_deep_in_the_stack(lambda: parse_line(data))):
        raise AssertionError(f"{data!r} is another line on a deep stack")
    split("journal", [data], 2)
    if isinstance(event, Line):
        _deep_in_the_stack(lambda: _take(event))


def _said(event: Line | str) -> tuple[object, ...]:
    if isinstance(event, str):
        return (event,)
    return event.name, event.kind, event.group, event.member, event.generation, owned_text(event)


def _take(event: Line) -> None:
    generation = NO_GENERATION if event.generation is None else event.generation
    time_us, seq = event.time_us or 0, event.seq or 0
    about = (
        event.kind or "",
        event.member or "",
        event.instance,
        event.protocol,
        generation,
        owned_text(event),
    )
    GroupOwnership({}, 0).take(Event(time_us, *event.process, seq, *about))
    if bytes(event.commits) != b"null":
        Commits(0).take(event)


def _deep_in_the_stack(call: Callable[[], T], frames: int = _DEEP) -> T:
    return call() if frames == 0 else _deep_in_the_stack(call, frames - 1)


def read_frames(chunks: Iterable[bytes]) -> None:
    """A child's stream: each frame is messages of the member log's client, or the child ends by one of two errors."""
    splitter = FrameSplitter()
    with contextlib.suppress(BadFrame, Undecodable):
        for chunk in chunks:
            for frame in splitter.feed(chunk):
                REPORTS.decode(frame)


def lines() -> Iterator[bytes]:
    """Lines as proxies write them."""
    event = {
        "v": 1, "seq": 1, "time_us": 1, "replica": "r", "boot": "b", "kind": "assigned", "group": "g", "member": "m",
        "protocol": "translated", "generation": 1, "owned": [{"topic": "t", "partitions": [0, 1], "id": None}],
    }  # fmt: skip
    yield msgspec.json.encode(event)
    commits = [{"topic": "t", "partitions": [0], "offsets": [5], "before": [-1]}]
    yield msgspec.json.encode(event | {"kind": "committed", "commits": commits})
    yield msgspec.json.encode(event)[:-1] + b', "x": ' + b"[" * 800 + b"]" * 800 + b"}"


def frames() -> Iterator[bytes]:
    """A stream of frames, in one chunk."""
    stream = framed(ENCODER.encode([EndReached(0, 7), Noted("what", "why")])) * 2
    yield len(stream).to_bytes(2) + stream
