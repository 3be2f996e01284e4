"""Follows one request through the code: which files get it, in which forms, and how many lines of them run.

A function is on the way if the request, or what has become of it, is among its arguments or is what it returns: its
bytes, a message, or an immutable value that holds one of these. So buffers, loops, counters and look-ups that serve
every request are not on the way, however often they run meanwhile.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import msgspec

ROOT = Path(__file__).resolve().parents[2]
OWN = ("proxy", "translation", "protocol_codecs")
_FOLDERS = tuple(f"{ROOT / name}/" for name in OWN)
BYTES = "bytes"
MESSAGES = frozenset(
    {
        "JoinGroupRequest",
        "ConsumerGroupHeartbeatRequest",
        "ConsumerGroupHeartbeatResponse",
        "JoinGroupResponse",
    }
)
"""What a client that joins sends and gets, in either protocol."""
_DEEP = 2
"""So many values may be around a message: one may hold the request that holds it."""


@dataclasses.dataclass
class Stop:
    """A file on the way: its functions there, in the order of their calls, and the numbers of the lines that ran."""

    functions: dict[str, None] = dataclasses.field(default_factory=dict)
    lines: set[int] = dataclasses.field(default_factory=set)


class Form(NamedTuple):
    """A form of the request: the name of its type, and the file that first hands it on."""

    name: str
    handed_on_in: str


class Tracer:
    """What :func:`sys.settrace` is given, for the thread that handles the request."""

    def __init__(self, *marks: bytes) -> None:
        """Follow a request by texts that only its bytes contain."""
        self._marks = set(marks)
        self.stops: dict[str, Stop] = {}
        """By path below the root, in the order in which the request comes to them."""
        self.files: set[str] = set()
        """All files of ours that ran meanwhile."""
        self.forms: list[Form] = []
        """The forms of the request since :meth:`begin`, each behind the one that it is made from."""

    def begin(self, *marks: bytes) -> None:
        """Follow the forms from here on, of a request that may have more marks."""
        self._marks |= set(marks)
        self.forms = []

    def __call__(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        """Take a call. Generators call again whenever they are resumed."""
        code = frame.f_code
        if not code.co_filename.startswith(_FOLDERS):
            return None
        path = _path(frame)
        self.files.add(path)
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        given = [self._form(frame.f_locals[name]) for name in names if name in frame.f_locals]
        passed = [form for form in given if form is not None]
        for form in passed:
            self._came(form, frame.f_back or frame, of=())
        lines = {frame.f_lineno}

        def inside(frame: FrameType, event: str, argument: Any) -> Any:
            lines.add(frame.f_lineno)
            if event == "return":
                made = self._form(argument)
                if made is not None:
                    self._came(made, frame, of=passed)
                if passed or made is not None:
                    stop = self.stops.setdefault(path, Stop())
                    stop.functions[code.co_name] = None
                    stop.lines |= lines
            return inside

        if passed:
            self.stops.setdefault(path, Stop()).functions[code.co_name] = None
        return inside

    def _came(self, form: str, maker: FrameType, *, of: Sequence[str]) -> None:
        """Note a form that is new, or bytes that a function makes of the newest message."""
        before = [one.name for one in self.forms]
        message = next((one for one in reversed(before) if one in MESSAGES), None)
        if form not in before or (form == BYTES != before[-1] and message in of):
            self.forms.append(Form(form, _path(maker)))

    def _form(self, value: Any) -> str | None:
        if self._is_request(value):
            return BYTES if isinstance(value, bytes | bytearray | memoryview) else type(value).__name__
        return type(value).__name__ if self._holds_request(value, _DEEP) else None

    def _holds_request(self, value: Any, deep: int) -> bool:
        return _is_immutable(value) and any(
            self._is_request(one) or (deep > 1 and self._holds_request(one, deep - 1))
            for one in _parts(value)
        )

    def _is_request(self, value: Any) -> bool:
        if isinstance(value, bytes | bytearray | memoryview):
            text = bytes(value)
            return any(mark in text for mark in self._marks)
        return type(value).__name__ in MESSAGES


def _path(frame: FrameType) -> str:
    return frame.f_code.co_filename.removeprefix(f"{ROOT}/")


def _is_immutable(value: Any) -> bool:
    kind = type(value)
    return kind.__module__.startswith(OWN) and bool(
        kind.__struct_config__.frozen
        if issubclass(kind, msgspec.Struct)
        else dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    )


def _parts(value: Any) -> Iterator[Any]:
    for name in getattr(value, "__struct_fields__", ()) or [one.name for one in dataclasses.fields(value)]:
        yield getattr(value, name)
