"""A number for the whole state of a world, equal for states that will behave the same.

The real objects are walked, conversations under way included: a generator is where it stands, its local
variables and what it waits in. What only counts or records (call ids, sequence numbers, the story) is left out, because
it depends on the way to a state and not on the state.
"""

from collections import deque
from enum import Enum
from hashlib import blake2b
from types import BuiltinFunctionType, FunctionType, GeneratorType, MethodType
from typing import Any

import msgspec

from coordinator import snapshot
from coordinator.group_coordinator import GroupCoordinator
from tests.simulation.broker import Log
from tests.simulation.kernel import Kernel
from tests.simulation.network import Network
from tests.simulation.story import Story
from tests.simulation.wire import Ask, Reply
from translation.actions import Call, Request
from translation.engine.scheduler import Scheduler
from translation.engine.timers import Timers

_HISTORY = frozenset(
    {
        "_births",
        "_called_on",
        "_client_on",
        "_commits",
        "_connection_of",
        "_deserted",
        "_last_call_id",
        "_last_id",
        "_last_number",
        "_last_request",
        "_links",
        "_requests",
        "_sequence",
        "_uuids",
        "asked_ms",
        "awaiting",
        "broken_ms",
        "counts",
        "generator",
        "number",
        "requests",
        "steps",
    }
)
"""Attributes that say how the state was reached."""

_FIXED = frozenset(
    {
        "_broker",
        "_make_translator",
        "_network",
        "_watch",
        "config",
        "habits",
        "peer_closed",
        "new_uuid",
        "on_group_time",
        "on_member_time",
        "pace",
        "plan",
        "policy",
        "random",
        "rules",
        "settings",
        "topics",
        "versions",
        "watch",
        "world",
    }
)
"""Attributes that never change, or are walked for themselves."""

_LEFT_OUT = _HISTORY | _FIXED

_WAKES = frozenset({"_timed_out", "_wake"})
"""Events that matter only if something else, which is walked too, is still as it was when they were booked."""

_PLAIN = (int, float, str, bytes, bool, type(None))


def fingerprint(*things: Any, opaque: tuple[type, ...] = ()) -> bytes:
    """Sixteen bytes for these things and everything that they refer to, except what is inside of ``opaque`` types."""
    walker = _Walker(opaque)
    for thing in things:
        walker.walk(thing)
    return blake2b(repr(walker.words).encode(), digest_size=16).digest()


class _Walker:
    def __init__(self, opaque: tuple[type, ...]) -> None:
        self._by_name = (type, BuiltinFunctionType, Story, Log, Network, *opaque)
        self.words: list[Any] = []
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []

    def _put(self, *words: Any) -> None:
        self.words.append(words)

    def walk(self, thing: Any) -> None:
        if isinstance(thing, (_PLAIN, Enum)):
            self._put(thing)
            return
        if isinstance(thing, (tuple, list, deque)):
            self._put(type(thing).__name__, len(thing))
            for item in thing:
                self.walk(item)
            return
        if isinstance(thing, (frozenset, set)):
            self._put("set", sorted(map(_name_of, thing)))
            return
        if isinstance(thing, self._by_name):
            self._put(type(thing).__name__)
            return
        number = self._seen.get(id(thing))
        if number is not None:
            self._put("again", number)
            return
        self._seen[id(thing)] = len(self._seen)
        self._kept.append(thing)  # so that its id is not given to another
        self._walk_new(thing)

    def _walk_new(self, thing: Any) -> None:  # noqa: C901
        match thing:
            case dict():
                self._put("dict", len(thing))
                for key in sorted(thing, key=_name_of):
                    self._put(_name_of(key))
                    self.walk(key) if not isinstance(key, _PLAIN) else None
                    self.walk(thing[key])
            case GroupCoordinator():
                state = snapshot.complete(thing)
                del state["offsets"]  # they say when they were committed
                state["timers"] = sorted(map(repr, state["timers"]))
                self._put(state)
            case Kernel():
                self._put("kernel", thing.now_ms)
                self._put(sorted({self._event(event) for event in thing._heap}))
            case Timers():
                self._put("timers")
                booked = [(when, timed) for when, _, timed in thing._heap if timed.timer_at == when]
                self._put(sorted((when, _name_of(timed)) for when, timed in booked))
            case Scheduler():
                self._put("scheduler")
                for running in thing._calls.values():
                    self.walk(running)
            case Call() | Ask() | Reply() | Request():
                self._put(type(thing).__name__)
                self.walk(thing.message)
            case GeneratorType():
                self._walk_generator(thing)
            case MethodType():
                self._put(thing.__func__.__qualname__)
                self.walk(thing.__self__)
            case FunctionType():
                self._put(thing.__qualname__)
                for cell in thing.__closure__ or ():
                    self.walk(cell.cell_contents)
            case msgspec.Struct():
                self._put(type(thing).__name__)
                for field in thing.__struct_fields__:
                    self.walk(getattr(thing, field))
            case _:
                self._walk_object(thing)

    @staticmethod
    def _event(event: tuple[int, int, Any, tuple[Any, ...]]) -> tuple[int, str, str]:
        """When something is to happen, what, and to whom; what else it depends on is found in the whom."""
        at_ms, _, action, arguments = event
        if action.__name__ == "_if_alive":
            action, arguments = arguments
        if action.__name__ in _WAKES:
            return 0, "", ""
        return at_ms, action.__qualname__, _name_of(getattr(action, "__self__", None))

    def _walk_generator(self, generator: GeneratorType) -> None:
        frame = generator.gi_frame
        self._put(generator.__qualname__, frame.f_lasti if frame is not None else None)
        if frame is not None:
            for name, value in sorted(frame.f_locals.items()):
                self._put(name)
                self.walk(value)
        if generator.gi_yieldfrom is not None:
            self.walk(generator.gi_yieldfrom)

    def _walk_object(self, thing: Any) -> None:
        self._put(type(thing).__name__)
        names = list(getattr(thing, "__dict__", ()))
        for kind in type(thing).__mro__:
            slots = getattr(kind, "__slots__", ())
            names.extend((slots,) if isinstance(slots, str) else slots)
        for name in sorted(set(names) - _LEFT_OUT):
            if hasattr(thing, name):
                self._put(name)
                self.walk(getattr(thing, name))


def _name_of(thing: Any) -> str:
    """A text by which members of sets and keys of dictionaries are put in order."""
    if isinstance(thing, tuple):
        return ",".join(map(_name_of, thing))
    if isinstance(thing, _PLAIN):
        return repr(thing)
    for attribute in ("name", "id", "member_id", "group_id"):
        if hasattr(thing, attribute):
            return f"{type(thing).__name__} {getattr(thing, attribute)}"
    return type(thing).__name__ if not isinstance(thing, type) else thing.__name__
