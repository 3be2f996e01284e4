"""Which files are watched when what is loaded from them comes and goes."""

import os
import signal
from pathlib import Path

import trio
import trio.testing

from proxy.runtime.file_watcher import POLL_INTERVAL_S, FileWatcher


class Loaded:
    def __init__(self, file: Path) -> None:
        self.files = (file,)
        self.reloads: list[str] = []

    def reload(self, why: str) -> None:
        self.reloads.append(why)


async def test_those_of_the_moment_are_watched(tmp_path: Path, autojump_clock, nursery):
    first, second = Loaded(tmp_path / "first"), Loaded(tmp_path / "second")
    current = [first]
    nursery.start_soon(FileWatcher(lambda: current).run)
    await trio.sleep(3 * POLL_INTERVAL_S)
    assert first.reloads == [], "as they were at the start"
    current[:] = [second]
    second.files[0].write_text("changed between its construction and the next poll")
    await trio.sleep(3 * POLL_INTERVAL_S)
    first.files[0].write_text("of no interest any more")
    await trio.sleep(3 * POLL_INTERVAL_S)
    assert (first.reloads, second.reloads) == ([], ["the file changed"])
    second.files[0].write_text("changed again")
    await trio.sleep(3 * POLL_INTERVAL_S)
    assert second.reloads == ["the file changed"] * 2
    os.kill(os.getpid(), signal.SIGHUP)
    await trio.sleep(POLL_INTERVAL_S / 2)
    assert (first.reloads, second.reloads[2:]) == ([], ["SIGHUP"])
