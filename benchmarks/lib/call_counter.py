"""Counts what the proxy's code does in this thread: calls, system calls, wake-ups of its epoll loop, allocations.

A profile function of the interpreter notes each call, so the counts depend on no clock and no other process. A call
counts if code of ours makes it while the proxy runs: of a function, or of one that is written in C. Not counted are
calls of trio, of what runs periodically, and of the epoll loop, whose rounds depend on who shares the thread.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import BuiltinFunctionType, FrameType
from typing import Any, NamedTuple

from proxy.metrics.periodic import run_periodically
from proxy.transport import epoll

ROOT = Path(__file__).resolve().parents[2]
_OWN = tuple(f"{ROOT / name}/" for name in ("proxy", "translation", "protocol_codecs"))
_PROXY = _OWN[0]
_DISPATCH = epoll.EpollLoop._dispatch.__code__  # noqa: SLF001  who it calls is being woken
_PERIODICALLY = run_periodically.__code__
_READS = frozenset({"recv", "recv_into"})
_WRITES = frozenset({"send", "sendmsg"})
SYSTEM_CALLS = _READS | _WRITES | {"splice", "setsockopt", "getsockopt", "poll", "ioctl"}
"""Functions in C that are one system call each."""


class Call(NamedTuple):
    """One call: of what, by the code of which file below the root, and of which function."""

    name: str
    file: str
    caller: str
    depth: int


class CallCounter:
    """What was counted since the last :meth:`reset`."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.wake_ups = 0
        """Callbacks of the epoll loop."""
        self.allocations = 0
        """Blocks of memory by which the interpreter's heap grew between two calls or returns: at least so many were
        allocated. What is freed again between two of them is not seen."""
        self._blocks = 0
        self._entered: FrameType | None = None
        self._timer: FrameType | None = None
        self._depth = 0

    def reset(self) -> None:
        """Count from zero."""
        self.calls = []
        self.wake_ups = self.allocations = 0

    @property
    def system_calls(self) -> int:
        """How many of the calls are system calls; waits of the epoll loop are not among them."""
        return sum(call.name in SYSTEM_CALLS for call in self.calls)

    @property
    def before_writes(self) -> list[Call]:
        """The calls that bytes on their way wait for: those between a read and the write that follows it."""
        found: list[Call] = []
        waiting: list[Call] = []
        for call in self.calls:
            waiting = [] if call.name in _READS else [*waiting, call]
            if call.name in _WRITES:
                found, waiting = [*found, *waiting], []
        return found

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count in this thread while the context lasts."""
        sys.setprofile(self._on_event)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _on_event(self, frame: FrameType, event: str, argument: Any) -> None:
        grown = sys.getallocatedblocks() - self._blocks
        if self._timer is not None:
            if event == "return" and frame is self._timer:
                self._timer = None
        elif self._entered is not None:
            # The frame of a function that is called is allocated only for the profiler.
            self.allocations += max(0, grown - (event == "call"))
            self._inside(frame, event, argument)
        elif event == "call":
            self._enter(frame)
        self._blocks = sys.getallocatedblocks()  # what is allocated here does not count

    def _inside(self, frame: FrameType, event: str, argument: Any) -> None:
        match event:
            case "call" if frame.f_code is _PERIODICALLY:
                self._timer = frame
            case "call":
                caller = frame.f_back
                self._depth += 1
                if caller is None:
                    return
                if caller.f_code is _DISPATCH and frame.f_code.co_name != "_wake":
                    self.wake_ups += 1
                self._count(frame.f_code.co_name, caller)
            case "c_call":
                self._count(_name(argument), frame)
            case "return":
                if frame is self._entered:
                    self._entered = None
                self._depth -= 1

    def _enter(self, frame: FrameType) -> None:
        code = frame.f_code
        if (
            code.co_filename.startswith(_PROXY) and code.co_name != "task_scheduled"
        ):  # for each task of the process
            self._entered, self._depth = frame, 0

    def _count(self, name: str, caller: FrameType) -> None:
        code = caller.f_code
        if code.co_filename.startswith(_OWN) and code.co_filename != epoll.__file__:
            self.calls.append(
                Call(name, code.co_filename.removeprefix(f"{ROOT}/"), code.co_name, self._depth)
            )


def _name(function: BuiltinFunctionType) -> str:
    return function.__name__
