"""Reloads of the policy in virtual time, which does not wait for threads."""

from collections.abc import Callable
from typing import TypeVar

import trio

from proxy.reload.policy_reloader import PolicyReloader
from proxy.runtime.file_watcher import FileWatcher

T = TypeVar("T")


async def inline(work: Callable[[], T]) -> T:
    """Run it in this thread."""
    return work()


async def watch(reloader: PolicyReloader) -> None:
    """Watch the reloader's file, and load."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reloader.run)
        nursery.start_soon(FileWatcher(lambda: (reloader,)).run)
