"""Consumers as processes: started, told what to do, listened to, killed."""

import contextlib
import itertools
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from support.clients import ClientKind
from support.ownership import Event, Partition, deliveries, owned_now

Offsets = Mapping[str, Mapping[int, int]]
REBALANCE = frozenset({"assigned", "revoked", "lost"})
READ_OUT_S = 10.0
"""For what a killed process had written; a tracer that was killed leaves the pipe open for longer."""

END = frozenset({"closed", "failed", "killed", "died"})


class ConsumerProcess:
    """One application with one consumer. `events` grows while it runs; what it says is also in `log`, and what its
    library logs in `stderr`."""

    def __init__(
        self, name: str, kind: ClientKind, spec: Mapping[str, object], folder: Path, news: threading.Condition
    ) -> None:
        self.name = name
        self.kind = kind
        self.events: list[Event] = []
        self.fatal: Event | None = None
        """What its library reported as fatal; the process may go on running all the same."""
        self.log = folder / f"{name}.jsonl"
        self.stderr = folder / f"{name}.stderr"
        self._news = news
        self._killed = False
        with self.stderr.open("wb") as stderr:
            self._process = subprocess.Popen(
                [*kind.command(folder / f"{name}.client.log"), json.dumps(spec)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=folder,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self._reader = threading.Thread(target=self._read, name=f"read {name}", daemon=True)
        self._reader.start()

    def __repr__(self) -> str:
        return f"<{self.name}: {', '.join(map(str, sorted(self.owned()))) or 'owns nothing'}>"

    # What it said.

    def owned(self) -> frozenset[Partition]:
        """The partitions that it owns now, by its callbacks."""
        return owned_now(self.events)

    def consumed(self) -> set[tuple[Partition, int]]:
        """(partition, offset) of every record that its polls returned."""
        return {(delivery.partition, delivery.offset) for delivery in deliveries(self.events)}

    def seen(self, *kinds: str, since: int = 0) -> list[Event]:
        """Events of these kinds, from the `since`-th event on (see `mark`)."""
        return [event for event in self.events[since:] if event.kind in kinds]

    def callbacks(self, since: int = 0) -> list[Event]:
        """What its rebalance callbacks were told, from the `since`-th event on."""
        return self.seen(*REBALANCE, since=since)

    def mark(self) -> int:
        """A place in `events`, for `since`."""
        return len(self.events)

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Whether it closed, failed or was killed."""
        return bool(self.events) and self.events[-1].kind in END

    # What it is told.

    def send(self, command: str, **fields: object) -> None:
        """One command of drivers/line_protocol.py."""
        line = json.dumps({"command": command, **fields}) + "\n"
        self._stdin.write(line.encode())
        self._stdin.flush()

    def commit(self, offsets: Offsets | None = None, *, timeout_s: float = 60.0) -> Event:
        """Commit (the positions, if not told otherwise); the answer is `committed` or `commit_failed`."""
        since = self.mark()
        self.send("commit", offsets=offsets)
        return self.wait_for("committed", "commit_failed", since=since, timeout_s=timeout_s)

    def close(self, *, timeout_s: float = 60.0) -> None:
        """Close in an orderly way, which leaves the group."""
        self.send("close")
        self.wait_for("closed", timeout_s=timeout_s)
        self._process.wait(timeout=timeout_s)

    def kill(self) -> None:
        """kill -9: no callback, no LeaveGroup.

        It is stopped before the moment is stamped: then all that it said came before, and all that it did afterwards
        is nothing. A record that it read and committed in its last moment would count as lost otherwise.
        """
        self._killed = True
        with contextlib.suppress(ProcessLookupError, ChildProcessError):  # it has ended by itself
            self.freeze()
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        killed = self._stamped("killed")
        self._process.kill()
        self._process.wait()
        self._reader.join(READ_OUT_S)
        with self._news:
            self._append(killed)

    def freeze(self) -> None:
        """Stop the process as a long pause of its machine would (SIGSTOP)."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        os.kill(self._process.pid, signal.SIGCONT)

    def wait_for(self, *kinds: str, since: int = 0, timeout_s: float = 60.0) -> Event:
        """The first event of these kinds from the `since`-th event on."""
        self.wait_until(
            lambda: self.seen(*kinds, since=since),
            f"{self.name} says {' or '.join(kinds)}",
            timeout_s=timeout_s,
        )
        return self.seen(*kinds, since=since)[0]

    def wait_until(self, is_so: Callable[[], Any], what: str, *, timeout_s: float = 60.0) -> None:
        """Wait for news of any consumer until `is_so`."""
        wait_for_news(self._news, is_so, what, [self], timeout_s)

    def story(self) -> str:
        """What it said last, for the message of a failed test."""
        events = [
            str(event) if event.partitions else f"{event.kind} {_short(event)}" for event in self.events[-8:]
        ]
        stderr = self.stderr.read_text(errors="replace").splitlines()[-6:]
        return "\n  ".join([f"{self.name} ({self.kind}):", *events, *(f"stderr: {line}" for line in stderr)])

    def end(self) -> None:
        """Whatever state it is in, it is gone after this."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._stdin.close()  # which ends a driver that outlives what it was started by (a tracer)
        self._reader.join()
        self._stdout.close()

    def _read(self) -> None:
        for line in self._stdout:
            with self._news:
                if not self.ended:  # a line that was under way when it was killed
                    self._append(line.decode())
        code = self._process.wait()
        with self._news:
            if not self.ended and not self._killed:
                self._append(self._stamped("died", code=code))

    def _append(self, line: str) -> None:
        event = Event.parse(self.name, line)
        self.events.append(event)
        if self.fatal is None and event.kind == "error" and event.fields["fatal"]:
            self.fatal = event
        with self.log.open("a") as log:
            log.write(line.rstrip("\n") + "\n")
        self._news.notify_all()

    @staticmethod
    def _stamped(kind: str, **fields: object) -> str:
        return json.dumps({"event": kind, "mono": time.monotonic_ns(), "time": time.time_ns(), **fields})


class Consumers:
    """The consumers of one test, who may be in different groups and of different kinds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.all: list[ConsumerProcess] = []
        self._news = threading.Condition()
        self._names = itertools.count(1)

    def start(
        self,
        kind: ClientKind,
        bootstrap: str,
        group: str,
        topics: str | Sequence[str],
        *assignors: str,
        name: str | None = None,
        only: Mapping[str, object] | None = None,
        **spec: object,
    ) -> ConsumerProcess:
        """Start a consumer; it is known as its client.id. `spec` is as in drivers/line_protocol.py.

        `only` is the whole argument of a driver that is no consumer.
        """
        name = name or f"c{next(self._names)}"
        defaults = {
            "instance_id": None,
            "group_protocol": "classic",
            "session_timeout_ms": 6_000,
            "heartbeat_interval_ms": 500,
            "max_poll_interval_ms": 60_000,
            "auto_commit": True,
            "auto_commit_interval_ms": 500,
            "metadata_max_age_ms": 300_000,
            "rack": None,
            "commit_every_ms": 0,
        }
        own = {
            "bootstrap": bootstrap,
            "group": group,
            "topics": [topics] if isinstance(topics, str) else list(topics),
            "assignors": list(assignors),
            "client_id": name,
        }
        consumer = ConsumerProcess(name, kind, only or {**defaults, **own, **spec}, self.folder, self._news)
        self.all.append(consumer)
        return consumer

    @property
    def logs(self) -> list[list[Event]]:
        """All event logs, for the ownership checker."""
        return [consumer.events for consumer in self.all]

    def wait_until(
        self,
        is_so: Callable[[], Any],
        what: str,
        *,
        timeout_s: float = 90.0,
        may_crash: Collection[str] = (),
    ) -> None:
        """Wait for news until `is_so`; on failure, tell the stories of all.

        Fails at once when a consumer crashes that is not among `may_crash`, which are names.
        """
        wait_for_news(self._news, is_so, what, self.all, timeout_s, may_crash)

    def end(self) -> None:
        """Kill whoever still runs."""
        for consumer in self.all:
            consumer.end()


def wait_for_news(
    news: threading.Condition,
    is_so: Callable[[], Any],
    what: str,
    consumers: Sequence[ConsumerProcess],
    timeout_s: float,
    may_crash: Collection[str] = (),
) -> None:
    """Wait until `is_so`, which is asked again at each event. Raises AssertionError."""
    deadline = time.monotonic() + timeout_s
    with news:
        while not is_so():
            left = deadline - time.monotonic()
            crashed = [
                one.name for one in consumers if one.name not in may_crash and one.seen("failed", "died")
            ]
            if left <= 0 or crashed:
                stories = "\n".join(consumer.story() for consumer in consumers)
                why = f"{', '.join(crashed)} crashed" if crashed else f"{timeout_s:.0f} s passed"
                raise AssertionError(f"{why} while waiting until {what}\n{stories}")
            news.wait(left)


def _short(event: Event) -> str:
    text = json.dumps(
        {key: value for key, value in event.fields.items() if key not in {"seq", "offsets", "values"}}
    )
    return text if len(text) < 200 else text[:200] + "..."
