"""What a story of the demo is: something to run on a cluster, and what is said of its result."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, TypeVar

import msgspec
from rich.console import RenderableType

from proxy.demo.display_model import View
from proxy.demo.plan import Plan

R = TypeVar("R")
Run = Callable[[str, str, Plan, View], Awaitable[R]]
"""Runs a story on the cluster at an address, which has a name for people; raises DemoFailed, perhaps in a group."""


class Story(msgspec.Struct, Generic[R], frozen=True):
    """One story. ``partitions`` are those of its topic by default."""

    run: Run[R]
    summary: Callable[[R], Iterable[RenderableType]]
    problems: Callable[[R], list[str]]
    partitions: int
