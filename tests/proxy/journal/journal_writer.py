"""Writers of the journal's files, in this process and as processes that can be killed."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import trio

from proxy.journal.journal import JournalEvent
from proxy.journal.journal_files import FileSink
from proxy.journal.journal_folder import Terms

IDENTITY = {"replica": "host/0", "boot": "b1"}
TERMS = Terms(max_bytes=10_000, max_age_s=60.0)
_ROOT = Path(__file__).parents[3]


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def sink(
    folder: Path,
    clock: Callable[[], float] | None = None,
    *,
    replica: str = IDENTITY["replica"],
    boot: str = IDENTITY["boot"],
    deleted: Callable[[], None] = lambda: None,
    **terms,
) -> FileSink:
    return FileSink(
        folder, TERMS._replace(**terms), replica=replica, boot=boot, deleted=deleted, clock=clock or Time()
    )


def line(seq: int, reason: str = "", **identity: str) -> JournalEvent:
    return JournalEvent(**IDENTITY | identity, seq=seq, time_us=1, kind="joined", group="g", reason=reason)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def events(folder: Path, pattern: str = "*") -> list[JournalEvent]:
    return [
        msgspec.json.decode(text, type=JournalEvent)
        for path in sorted(folder.glob(pattern))
        for text in path.read_bytes().splitlines()
    ]


def seqs(folder: Path) -> list[int]:
    return [event.seq for event in events(folder)]


class Writer:
    """A process that writes events until it is killed, or until it has written ``until``.

    With ``stays`` it then keeps its last file open until it is killed.
    """

    def __init__(self, folder: Path, replica: str, *, until: int = 0, stays: bool = False, **terms) -> None:
        self.replica = replica
        arguments = (
            msgspec.json.encode(TERMS._replace(**terms)).decode(),
            str(until),
            "stays" if stays else "",
        )
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.proxy.journal.journal_writer", folder, replica, *arguments],
            cwd=_ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )

    def wait_written(self, seq: int) -> None:
        """Wait until it says that it has written this event."""
        assert self._process.stdout is not None
        assert any(int(text) >= seq for text in self._process.stdout), "it has ended"

    def kill(self) -> int:
        """End it by SIGKILL. Return the last event that it said to have written."""
        self._process.kill()
        output, _ = self._process.communicate()
        return max((int(text) for text in output.splitlines() if text.isdigit()), default=0)

    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait(self) -> None:
        """Wait for its end, which must be without an error."""
        self._process.communicate()
        assert self._process.returncode == 0


async def _write(folder: Path, replica: str, terms: Terms, until: int, stays: bool) -> None:
    writing = FileSink(folder, terms, replica=replica, boot="b")
    seq = 0
    while seq < until or not until:
        seq += 1
        await writing.write([line(seq, "r" * 100, replica=replica, boot="b")])
        print(seq, flush=True)
    if stays:
        await trio.sleep_forever()
    await writing.close()


if __name__ == "__main__":
    _folder, _replica, _terms, _until, _stays = sys.argv[1:]
    _decoded = msgspec.json.decode(_terms, type=Terms)
    trio.run(_write, Path(_folder), _replica, _decoded, int(_until), bool(_stays))
