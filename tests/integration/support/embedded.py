"""The embedded cluster in a thread of the test's process: real clients connect to it, and the test can move things."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import trio

from coordinator.broker import EmbeddedCluster, serve
from coordinator.config import CoordinatorConfig
from support.broker import Kafka

T = TypeVar("T")
CONFIG = CoordinatorConfig(
    consumer_session_timeout_ms=6_000,
    consumer_min_session_timeout_ms=1_000,
    consumer_heartbeat_interval_ms=500,
    consumer_min_heartbeat_interval_ms=100,
    classic_initial_rebalance_delay_ms=0,
    classic_min_session_timeout_ms=1_000,
    share_session_timeout_ms=6_000,
    share_min_session_timeout_ms=1_000,
    share_heartbeat_interval_ms=500,
    share_min_heartbeat_interval_ms=100,
    share_min_record_lock_duration_ms=1_000,
)
"""As tools/kafka starts its brokers for tests, and quicker for share groups."""


class Embedded(Kafka):
    """An embedded cluster; clients and admin tools take it for a Kafka."""

    def __init__(
        self,
        *,
        nodes: int,
        log_directory: Path | None = None,
        ports: Sequence[int] = (),
        config: CoordinatorConfig = CONFIG,
    ) -> None:
        self._cluster = EmbeddedCluster(
            nodes=nodes,
            auto_create_partitions=0,
            coordinator=config,
            log_directory=log_directory,
            ports=ports,
        )
        self._stop = trio.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=trio.run, args=(self._run,), name="embedded cluster")

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(10):
            raise AssertionError("the embedded cluster did not start")
        super().__init__(self._cluster.bootstrap, source="this process", version="embedded")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        trio.from_thread.run_sync(self._stop.set, trio_token=self._token)
        self._thread.join()

    def coordinator_of(self, group: str) -> int:
        """The node that coordinates the group."""
        return self._there(lambda: self._cluster.coordinator_of(group))

    def move_coordinator(self, group: str) -> int:
        """Let the next node coordinate the group; returns which."""
        node = (self.coordinator_of(group) + 1) % len(self._cluster.node_ids)
        self._there(lambda: self._cluster.move_coordinator(group, node))
        return node

    @property
    def ports(self) -> list[int]:
        """Of its nodes, for one that takes its place."""
        return [address.port for address in self._cluster.addresses.values()]

    def drop_connections(self) -> None:
        """End every connection of a client."""
        self._there(self._cluster.connections.drop)

    def _there(self, work: Callable[[], T]) -> T:
        return trio.from_thread.run_sync(work, trio_token=self._token)

    async def _run(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        async with serve(self._cluster):
            self._ready.set()
            await self._stop.wait()
