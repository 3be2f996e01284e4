"""A hash of the whole state of a world, equal for states that will behave the same.

It walks the real objects, procedures in progress included: of a generator, its position, its local variables and the
generator that it delegates to. Attributes that only count or record (call ids, sequence numbers, the story) are left
out, because they depend on how the state was reached and not on the state.
"""

from collections import defaultdict, deque
from collections.abc import Callable
from enum import Enum
from functools import partial
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
from translation.members.environment import Timers
from translation.members.procedure import RunningProcedure

_HISTORY = frozenset(
    {
        "_abandoned",
        "_called_on",
        "_client_on",
        "_commits",
        "_connection_of",
        "_last_call_id",
        "_last_id",
        "_last_number",
        "_last_request",
        "_links",
        "_requests",
        "_sequence",
        "_starts",
        "_uuids",
        "asked_ms",
        "awaiting",
        "broken_ms",
        "call_id",
        "counts",
        "number",
        "oracle",
        "requests",
    }
)
"""Attributes that only record how the state was reached."""

_FIXED = frozenset(
    {
        "_broker",
        "_heartbeats",
        "_make_translator",
        "_network",
        "_watch",
        "config",
        "habits",
        "peer_closed",
        "new_uuid",
        "on_group_time",
        "on_member_time",
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
    """Return sixteen bytes for these objects and all that they refer to, except the contents of ``opaque`` types."""
    return blake2b(repr(words_of(*things, opaque=opaque)).encode(), digest_size=16).digest()


def words_of(*things: Any, opaque: tuple[type, ...] = ()) -> list[Any]:
    """Return the list that :func:`fingerprint` hashes. Comparing two lists is faster than hashing both."""
    walker = _Walker(opaque)
    for thing in things:
        walker.walk(thing)
    return walker.words


class _Walker:
    """Writes a state as a list of plain values. How an object is walked depends on its type alone."""

    def __init__(self, opaque: tuple[type, ...]) -> None:
        self._by_name = (type, BuiltinFunctionType, Story, Log, Network, *opaque)
        self._ways = _WAYS[opaque]
        self.words: list[Any] = []
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []

    def _put(self, *words: Any) -> None:
        self.words.extend(words)

    def walk(self, thing: Any) -> None:
        kind = type(thing)
        way = self._ways.get(kind)
        if way is None:
            way = self._ways[kind] = self._way_of(kind)
        way(self, thing)

    def _way_of(self, kind: type) -> "Callable[[_Walker, Any], None]":
        if issubclass(kind, Enum):
            return _Walker._walk_enum
        if issubclass(kind, _PLAIN):
            return _Walker._walk_plain
        if issubclass(kind, (tuple, list, deque)):
            return _Walker._walk_items
        if issubclass(kind, (frozenset, set)):
            return _Walker._walk_set
        if issubclass(kind, self._by_name):
            return _Walker._walk_name
        for kinds, inside in _INSIDES:
            if issubclass(kind, kinds):
                return partial(_Walker._walk_once, inside=inside)
        return partial(_Walker._walk_once, inside=_Walker._walk_object)

    def _walk_plain(self, thing: Any) -> None:
        self.words.append(thing)

    def _walk_enum(self, thing: Any) -> None:
        self._put(type(thing).__name__, thing._name_)

    def _walk_items(self, things: Any) -> None:
        self._put(type(things).__name__, len(things))
        for item in things:
            self.walk(item)

    def _walk_set(self, things: Any) -> None:
        self._put("set", sorted(map(_name_of, things)))

    def _walk_name(self, thing: Any) -> None:
        self.words.append(type(thing).__name__)

    def _walk_once(self, thing: Any, inside: "Callable[[_Walker, Any], None]") -> None:
        number = self._seen.setdefault(id(thing), len(self._seen))
        if number != len(self._kept):
            self._put("again", number)
            return
        self._kept.append(thing)  # so that its id is not given to another
        inside(self, thing)

    def _walk_dict(self, thing: Any) -> None:
        self._put("dict", len(thing))
        try:
            keys = sorted(thing)
        except TypeError:
            keys = sorted(thing, key=_name_of)
        for key in keys:
            if type(key) is str:
                self.words.append(key)
            else:
                self._put(_name_of(key))
                self.walk(key) if not isinstance(key, _PLAIN) else None
            self.walk(thing[key])

    def _walk_coordinator(self, thing: Any) -> None:
        state = snapshot.complete(thing)
        del state["offsets"]  # they say when they were committed
        state["timers"] = sorted(map(repr, state["timers"]))
        self._put(state)

    def _walk_kernel(self, thing: Any) -> None:
        self._put("kernel", thing.now_ms)
        self._put(sorted({self._event(event) for event in thing._heap}))

    def _walk_timers(self, thing: Any) -> None:
        booked = sorted(
            (when, _name_of(timed), sequence, timed)
            for when, sequence, timed in thing._heap
            if timed.timer_at == when
        )
        self._put("timers", [(when, name) for when, name, _, _ in booked])
        for *_, timed in booked:
            if isinstance(timed, RunningProcedure):
                self.walk(timed)  # nothing else may refer to a procedure in a Wait

    def _walk_scheduler(self, thing: Any) -> None:
        self._put("scheduler")
        for running in thing._calls.values():
            self.walk(running)

    def _walk_message(self, thing: Any) -> None:
        self._put(type(thing).__name__)
        self.walk(thing.message)

    def _walk_method(self, thing: Any) -> None:
        self._put(thing.__func__.__qualname__)
        self.walk(thing.__self__)

    def _walk_function(self, thing: Any) -> None:
        self._put(thing.__qualname__)
        for cell in thing.__closure__ or ():
            self.walk(cell.cell_contents)

    def _walk_struct(self, thing: Any) -> None:
        self._put(type(thing).__name__)
        for field in thing.__struct_fields__:
            self.walk(getattr(thing, field))

    @staticmethod
    def _event(event: tuple[int, int, Any, tuple[Any, ...]]) -> tuple[int, str, str]:
        """Return time, action and target of an event; all else that it depends on is found by walking the target."""
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
        kind = type(thing)
        own = getattr(thing, "__dict__", ())
        names = _NAMES.get((kind, *own))
        if names is None:
            names = _NAMES[(kind, *own)] = tuple(sorted({*own, *_slots_of(kind)} - _LEFT_OUT))
        self._put(kind.__name__)
        for name in names:
            value = getattr(thing, name, _UNSET)
            if value is not _UNSET:
                self.words.append(name)
                self.walk(value)


_UNSET = object()
_NAMES: dict[tuple[Any, ...], tuple[str, ...]] = {}
"""Type and instance attributes -> the attributes that are walked."""
_WAYS: defaultdict[tuple[type, ...], dict[type, Callable[[_Walker, Any], None]]] = defaultdict(dict)
"""Opaque types -> type -> how one of it is walked."""
_INSIDES: tuple[tuple[tuple[type, ...], Callable[[_Walker, Any], None]], ...] = (
    ((dict,), _Walker._walk_dict),
    ((GroupCoordinator,), _Walker._walk_coordinator),
    ((Kernel,), _Walker._walk_kernel),
    ((Timers,), _Walker._walk_timers),
    ((Scheduler,), _Walker._walk_scheduler),
    ((Call, Ask, Reply, Request), _Walker._walk_message),
    ((GeneratorType,), _Walker._walk_generator),
    ((MethodType,), _Walker._walk_method),
    ((FunctionType,), _Walker._walk_function),
    ((msgspec.Struct,), _Walker._walk_struct),
)


def _slots_of(kind: type) -> set[str]:
    names: set[str] = set()
    for base in kind.__mro__:
        slots = getattr(base, "__slots__", ())
        names.update((slots,) if isinstance(slots, str) else slots)
    return names


def _name_of(thing: Any) -> str:
    """Return a text that sorts members of sets and keys of dictionaries."""
    if isinstance(thing, tuple):
        return ",".join(map(_name_of, thing))
    if isinstance(thing, _PLAIN):
        return repr(thing)
    for attribute in ("name", "id", "member_id", "group_id"):
        if hasattr(thing, attribute):
            return f"{type(thing).__name__} {getattr(thing, attribute)}"
    return type(thing).__name__ if not isinstance(thing, type) else thing.__name__
