"""Ask every process something: by name, answered with a value that msgspec can encode."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeVar

import msgspec

T = TypeVar("T")

Answering = Callable[[], Awaitable[Any]]
"""Gives an answer. It runs in the trio thread: it must be quick, or let others go on
(:mod:`proxy.runtime.time_slice`)."""

Answers = Mapping[str, Answering]
"""What a process can be asked."""


class Processes(Protocol):
    """The processes that serve clients, however many there are."""

    async def ask(self, what: str, kind: type[T]) -> list[T]:
        """The answer of every process that gives one in time; one that is being restarted is left out."""
        ...


class ThisProcess:
    """The one process that there is with ``workers: 1``."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    async def ask(self, what: str, kind: type[T]) -> list[T]:
        """See :class:`Processes`."""
        return [msgspec.convert(await self._answers[what](), kind)]
