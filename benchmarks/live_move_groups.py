"""Groups of all kinds at work at one entry: formed, moved by one change of the policy, restarted, judged."""

import contextlib
import dataclasses
import time
import urllib.error
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from support.broker import Kafka
from support.consumers import Consumers
from support.entry import Proxy
from support.live_group import LiveGroup
from support.load import Load
from support.waiting import eventually

from benchmarks.live_move_costs import Phase, Reading, reading
from benchmarks.live_move_kinds import Kind

PARTITIONS_EACH = 2
SESSION_MS, HEARTBEAT_MS = 30_000, 1_000
"""Of the clients: a machine that is busy with so many of them expires nobody."""
EVERY_S = 0.5
"""Two records for each partition: four a second."""
AT_WORK, RESTART = "at work", "restart"


@dataclasses.dataclass
class Group:
    """One group; `failed` says why it stopped before the end, and `done` what it went through until then."""

    name: str
    kind: Kind
    live: LiveGroup
    load: Load
    done: list[str] = dataclasses.field(default_factory=list)
    failed: str = ""


class Groups:
    """Groups of several kinds, behind the same proxies or straight at the broker. All has ended with the block."""

    def __init__(
        self, kafka: Kafka, kinds: Mapping[str, Kind], members: int, proxies: Sequence[Proxy], folder: Path
    ) -> None:
        self._kafka, self._kinds, self._members = kafka, kinds, members
        self._proxies, self._folder = proxies, folder
        self._groups: list[Group] = []
        self._phases: list[Phase] = []
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        for name, kind in self._kinds.items():
            self._groups.append(self._new_group(name, kind))
        if self._proxies:
            self._write("observe")
        self._begin(AT_WORK)
        self._each(AT_WORK, lambda group: _form(group, self._members))
        self._each("quiet", _until_quiet)  # what its forming has read twice is not the first move's
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def move(self, mode: str) -> None:
        """Change the policy for all groups at once, and wait until each is moved."""
        self._begin(mode)
        self._write(mode)
        self._each(mode, lambda group: group.live.until_moved(mode))

    def restart_proxies(self) -> None:
        """Kill the proxies and start them again: without a member log they know none of their clients then."""
        self._begin("restart of the proxies")
        for proxy in self._proxies:
            proxy.kill()
            proxy.start()
        self._each("seen again", _until_seen)

    def restart_one_of_each(self) -> None:
        """Close one member of each group in an orderly way, and start another one in its place."""
        self._begin(RESTART)
        self._each(RESTART, _restart)
        self._each("restarted", _until_quiet)

    def finish(self) -> dict[str, tuple[Group, Reading]]:
        """Stop the records, wait until all are read, and judge."""
        for group in self._groups:
            group.load.stop()
        until = time.monotonic_ns()
        self._each("read", lambda group: group.live.read_up_to_now())
        return {
            group.name: (
                group,
                reading(self._phases, group.live.produced(), group.live.consumers.logs, until),
            )
            for group in self._groups
        }

    def _new_group(self, name: str, kind: Kind) -> Group:
        folder = self._folder / name
        folder.mkdir(parents=True)
        consumers = Consumers(folder)
        self._stack.callback(consumers.end)
        partitions = self._members * PARTITIONS_EACH
        topic = self._kafka.new_topic(name, partitions=partitions)
        live = LiveGroup(
            self._kafka, consumers, self._proxies, f"{name}-{uuid.uuid4().hex[:6]}", {topic: partitions}
        )
        load = self._stack.enter_context(Load(self._kafka, topic, every_s=EVERY_S))
        live.loads.append(load)
        return Group(name, kind, live, load)

    def _begin(self, phase: str) -> None:
        self._phases.append(Phase(phase, time.monotonic_ns()))

    def _write(self, mode: str) -> None:
        self._groups[0].live.policy(mode)

    def _each(self, phase: str, step: Callable[[Group], None]) -> None:
        """Take the step for each group that has come so far; what goes wrong ends its measurement."""
        for group in self._going_on():
            try:
                step(group)
                group.done.append(phase)
            except (AssertionError, OSError) as failure:
                group.failed = f"{phase}: {_who_ended(group) or str(failure).splitlines()[0]}"
        print(f"{time.strftime('%H:%M:%S')} {phase}: {self._summary()}", flush=True)

    def _going_on(self) -> Iterator[Group]:
        for group in self._groups:
            group.failed = group.failed or _who_ended(group)
            if not group.failed:
                yield group

    def _summary(self) -> str:
        failed = [f"{group.name}: {group.failed}" for group in self._groups if group.failed]
        return "; ".join([f"{len(self._groups) - len(failed)} groups go on", *failed])


def _who_ended(group: Group) -> str:
    ended = [one.name for one in group.live.members if one.ended]
    return f"{', '.join(ended)} ended" if ended else ""


def _form(group: Group, members: int) -> None:
    _start(group, members)
    group.live.until_shared()


def _restart(group: Group) -> None:
    leaving = group.live.members.pop()
    leaving.close()
    _start(group, 1)


def _start(group: Group, count: int) -> None:
    group.live.start(
        group.kind.client,
        group.kind.assignor,
        count=count,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        **group.kind.spec,
    )


def _until_seen(group: Group) -> None:
    def is_seen() -> bool:
        try:
            return any(proxy.group(group.live.group) for proxy in group.live.proxies)
        except urllib.error.HTTPError:
            return False

    eventually(is_seen, what="a proxy sees a client of the group")


def _until_quiet(group: Group) -> None:
    group.live.until_shared()
    group.live.until_quiet()
