"""Measures what the shadows of 1,000 observed groups cost beside the same process without them: `make bench-shadow`.

One process has the groups in its registry and is told of each, as by brokers, every 30 seconds; ten groups a second
have changed, so there is always something to compute. A task that wants to run every two milliseconds stands for the
calls of clients: how late it is, is what a call waits. Processor time is this process's own, which other load does not
change.
"""

import argparse
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import trio

from benchmarks.lib.test_bed import BUILD
from protocol_codecs import ApiKey, Uuid
from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
    encode_assignment,
    encode_subscription,
)
from protocol_codecs.messages.describe_groups import DescribedGroup, DescribedGroupMember
from protocol_codecs.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from proxy.config.shadow import Shadow
from proxy.groups.broker_queries import BrokerQuery
from proxy.groups.group_registry import GroupRegistry
from proxy.groups.shadowing import Shadowing
from proxy.metrics.registry import Metrics
from proxy.runtime.wall_clock import WallClock
from translation.actions import Connection, ConnectionId, Event, EventKind
from translation.policy.policy import Mode, Policy

RESULT = BUILD / "bench-shadow.json"
TARGET = 0.05
ROUND_S = 30.0
CHANGED_A_SECOND = 10
TICK_S = 0.002
SIZES = ((1, 3), (3, 12), (6, 24), (12, 60), (40, 400))
"""Members and partitions of groups."""


class Brokers:
    """Answers Metadata for the topic of a group."""

    def __init__(self, partitions: dict[str, int]) -> None:
        self._partitions = partitions

    def described(self, group_id: str, description: object) -> None:
        """Nobody mends anything here."""

    def ask(
        self,
        group_id: str,
        make_query: Callable[[Connection], BrokerQuery | None],
        on_response: Callable[[Any], None],
    ) -> bool:
        """Answer at once."""
        make_query(Connection(ConnectionId(1), "127.0.0.1", {ApiKey.METADATA: (0, 13)}))
        partitions = tuple(
            MetadataResponsePartition(
                error_code=0, partition_index=n, leader_id=n % 3, replica_nodes=(n % 3,), isr_nodes=(n % 3,)
            )
            for n in range(self._partitions[group_id])
        )
        topic = MetadataResponseTopic(
            error_code=0, name="t", topic_id=Uuid(group_id.encode().ljust(16)), partitions=partitions
        )
        brokers = tuple(MetadataResponseBroker(node_id=n, host="h", port=1, rack=f"r{n}") for n in range(3))
        on_response(MetadataResponse(brokers=brokers, topics=(topic,)))
        return True


def described(group_id: str, members: int, partitions: int) -> DescribedGroup:
    """A group whose partitions are dealt out."""
    subscription = encode_subscription(ConsumerProtocolSubscription(topics=("t",), rack_id="r1"), 3)
    found = []
    for number in range(members):
        mine = tuple(range(number, partitions, members))
        topics = (ConsumerProtocolTopicPartition(topic="t", partitions=mine),) if mine else ()
        found.append(
            DescribedGroupMember(
                member_id=f"{group_id}-{number}-5c1a3a0e-8d8b-4f39-9a4e-8f5d3f0f8b1a",
                client_id="c",
                client_host="/h",
                member_metadata=subscription,
                member_assignment=encode_assignment(
                    ConsumerProtocolAssignment(assigned_partitions=topics), 3
                ),
            )
        )
    return DescribedGroup(
        error_code=0,
        group_id=group_id,
        group_state="Stable",
        protocol_type="consumer",
        protocol_data="range",
        members=tuple(found),
    )


async def run(groups: int, seconds: float, *, enabled: bool) -> dict[str, float]:
    """Run for so long; return the share of a core that was used, how late a task was, and what was computed."""
    rng = random.Random(1)
    sizes = {f"group-{number:05}": rng.choice(SIZES) for number in range(groups)}
    registry, metrics = GroupRegistry(Policy(default=Mode.OBSERVE)), Metrics()
    for group_id in sizes:
        registry.record(Event(kind=EventKind.JOINED, group_id=group_id, member_id="m", protocol="classic"), 1)
    shadowing = Shadowing(
        Brokers({group_id: partitions for group_id, (_, partitions) in sizes.items()}),
        registry,
        WallClock(),
        Shadow(),
        metrics,
    )
    known = {group_id: described(group_id, *size) for group_id, size in sizes.items()}
    late: list[float] = []

    async def tick() -> None:
        while True:
            due = time.perf_counter() + TICK_S
            await trio.sleep(TICK_S)
            late.append(time.perf_counter() - due)

    async def tell() -> None:
        ids = list(sizes)
        while True:
            for group_id in ids:
                if rng.random() < CHANGED_A_SECOND * ROUND_S / groups:
                    members, partitions = sizes[group_id]
                    known[group_id] = described(group_id, members + rng.randint(0, 2), partitions)
                if enabled:
                    shadowing.described(group_id, known[group_id])
                await trio.sleep(ROUND_S / groups)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tick)
        nursery.start_soon(tell)
        if enabled:
            nursery.start_soon(shadowing.run)
        before, began = time.process_time(), time.perf_counter()
        await trio.sleep(seconds)
        used, took = time.process_time() - before, time.perf_counter() - began
        nursery.cancel_scope.cancel()
    late.sort()
    return {
        "share": used / took,
        "shadow_share": metrics.shadow_seconds._value.get() / took,  # noqa: SLF001
        "late_p50_ms": statistics.median(late) * 1e3,
        "late_p99_ms": late[len(late) * 99 // 100] * 1e3,
        "late_max_ms": late[-1] * 1e3,
        "told": sum(group.shadow is not None for group in registry.groups.values()),
    }


def main() -> None:
    """Measure both, and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    found = {
        name: trio.run(partial(run, options.groups, options.seconds, enabled=enabled))
        for name, enabled in (("without", False), ("with", True))
    }
    lost = found["with"]["share"] - found["without"]["share"]
    sys.stdout.write(
        "| shadow | share of a core | late p50 ms | p99 ms | longest ms | groups told |\n"
        "| --- | ---: | ---: | ---: | ---: | ---: |\n"
    )
    for name, one in found.items():
        sys.stdout.write(
            f"| {name} | {one['share']:.1%} | {one['late_p50_ms']:.2f} | {one['late_p99_ms']:.2f} | "
            f"{one['late_max_ms']:.1f} | {one['told']} |\n"
        )
    met = "met" if lost <= TARGET else "MISSED"
    sys.stdout.write(
        f"\nIt costs {lost:.1%} of a core more (target: at most {TARGET:.0%}: {met}); "
        f"{found['with']['share'] / found['without']['share']:.2f} times the processor time without. "
        f"Load {os.getloadavg()[0]:.1f}.\n"
    )
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(found | {"lost": lost, "target": TARGET}, indent=1) + "\n")


if __name__ == "__main__":
    main()
