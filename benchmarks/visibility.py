"""Measures the cost of observability: heartbeats with and without it, and 10,000 groups in the registry.

The same heartbeats go through two proxies in turn, against one real Kafka: one as it is, with metrics by group,
observer, questions to brokers and a journal on disk; and one in which the group events, the observer and the journal
are taken out. What is compared is the processor time of the proxy for one heartbeat, which other work on the machine
disturbs least.

    python -m benchmarks.visibility                 both tables, build/bench-visibility.json
    python -m benchmarks.visibility bare FILE       run a proxy without eyes (used by the above)
"""

import json
import os
import statistics
import sys
import time
import tracemalloc
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock
from uuid import uuid4

import trio
from confluent_kafka.admin import AdminClient, NewTopic
from starlette.applications import Starlette

from benchmarks.lib.test_bed import BUILD, Gateway, gateway, kafka
from benchmarks.lib.wire import ClassicMember, Line, coordinator
from proxy.admin.admin_http import Health, SingleProcessBackend, admin_app
from proxy.config.schema import Config, Listener, Log, MetricsSection, Upstream
from proxy.connection import translator_driver
from proxy.groups.observability import Observability
from proxy.metrics.registry import Metrics
from proxy.runtime import log_setup
from proxy.runtime.wall_clock import WallClock
from proxy.session import session
from translation.actions import Event, EventKind
from translation.partitions import TopicPartitionSet
from translation.policy.policy import Mode, Policy

RESULT = BUILD / "bench-visibility.json"
ROUNDS = 40
BEATS = 600
TARGET = 0.05
GROUPS = 10_000
PAGES = ("/metrics", "/api/groups", "/", "/groups/group-00007")
MEMBERS = 3
EYES = "journal: {path: journal}\nmetrics: {ask_brokers_every_s: 5}\n"


def _nothing(*_: object) -> None:
    """Replace a removed function; a mock would cost more than the function."""


def bare(config: Path) -> None:
    """Run a proxy without observability."""
    from proxy.cli.run import run  # noqa: PLC0415  after the patches

    with (
        mock.patch.object(session, "OBSERVED", frozenset()),
        mock.patch.object(translator_driver.TranslatorDriver, "_reach", _nothing),
        mock.patch.object(Observability, "record", _nothing),
        mock.patch.object(Observability, "start", _nothing),
    ):
        run(config)


class Blind(Gateway):
    """A proxy process without observability."""

    def command(self, config: Path) -> list[str]:
        return [sys.executable, "-m", "benchmarks.visibility", "bare", str(config)]


def heartbeats(rounds: int = ROUNDS, beats: int = BEATS) -> dict[str, Any]:
    """Measure the processor time of a heartbeat in both proxies, translated and passed through."""
    result: dict[str, Any] = {"rounds": rounds, "beats": beats, "target": TARGET, "load": os.getloadavg()[1]}
    with kafka() as cluster, gateway(cluster.bootstrap, "seeing", more=EYES) as seeing:
        blind = Blind(cluster.bootstrap, BUILD / "bench" / "blind")
        blind.start()
        try:
            for mode in ("translated", "observed"):
                result[mode] = _in_turn(
                    cluster.bootstrap, {"with": seeing, "without": blind}, mode, rounds, beats
                )
        finally:
            blind.stop()
    return result


def _in_turn(
    bootstrap: str, proxies: dict[str, Gateway], mode: str, rounds: int, beats: int
) -> dict[str, float | bool]:
    topic = f"seen-{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    members = {}
    for way, proxy in proxies.items():
        group = f"{mode}-{way}-{topic}"
        member = ClassicMember(Line(coordinator(proxy.bootstrap, group)), group, topic)
        member.join()
        member.settle()
        members[way] = member
    cpu: dict[str, list[float]] = {way: [] for way in proxies}
    for number in range(rounds + 1):
        for way in proxies if number % 2 else reversed(proxies):
            before = proxies[way].cpu_s()
            for _ in range(beats):
                members[way].line.exchange(members[way].heartbeat_frame())
            if number:  # the first warms up
                cpu[way].append((proxies[way].cpu_s() - before) / beats * 1e6)
        print(f"{mode}: round {number} of {rounds}", file=sys.stderr, flush=True)
    # Other load only adds time, and affects both alike only on average: hence medians, and pairs of one round.
    median = {way: statistics.median(values) for way, values in cpu.items()}
    lost = statistics.median(w / wo - 1 for w, wo in zip(cpu["with"], cpu["without"], strict=True))
    least = min(cpu["with"]) / min(cpu["without"]) - 1
    return {
        "with_us": median["with"],
        "without_us": median["without"],
        "lost": lost,
        "lost_least": least,
        "met": lost < TARGET,
    }


def cardinality(groups: int = GROUPS) -> dict[str, Any]:
    """Measure size and time of a scrape, a snapshot and a page with many groups in the registry."""
    log_setup.configure(Log(level="warning"))
    metrics = Metrics()
    observability = observing(metrics)
    events = [event for number in range(groups) for event in life(number)]
    began = time.perf_counter()
    for event in events:
        observability.record(event)
    took_s = time.perf_counter() - began
    backend = SingleProcessBackend(
        metrics,
        Health(metrics),
        {
            "groups": lambda: observability.snapshot(events=False),
            "groups with events": lambda: observability.snapshot(events=True),
        },
    )
    site = admin_app(backend)
    pieces = {path: trio.run(held, partial(get, site, path)) for path in PAGES}
    return {
        "groups": groups,
        "members": groups * MEMBERS,
        "group_labels": MetricsSection().groups,
        "us_per_event": took_s / len(events) * 1e6,
        "kib_per_group": _kib_per_group(),
        "pieces": pieces,
    }


def observing(metrics: Metrics) -> Observability:
    """What a proxy records events in, without a proxy."""
    upstream = Upstream(bootstrap=("kafka:9092",))
    config = Config(upstream=upstream, listeners=(Listener(advertised_host="x", nodes={"0": 0}),))
    return Observability(
        config, metrics, Policy(default=Mode.TRANSLATE), lambda: None, replica="here", clock=WallClock()
    )


def _kib_per_group(groups: int = 1000) -> float:
    observability = observing(Metrics())
    tracemalloc.start()
    for number in range(groups):
        for event in life(number):
            observability.record(event)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return held / groups / 1024


async def get(site: Starlette, path: str) -> int:
    """Call the admin port's application without a socket; return the size of its answer."""
    size = 0

    async def receive() -> NoReturn:
        await trio.sleep_forever()
        raise AssertionError

    async def send(message: MutableMapping[str, Any]) -> None:
        nonlocal size
        size += len(message.get("body", b""))

    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "query_string": b"",
        "headers": [],
        "root_path": "",
    }
    await site(scope, receive, send)
    return size


async def held(ask: Callable[[], Awaitable[int]], rounds: int = 7) -> dict[str, float]:
    """Return the processor time of an answer, and of its longest slice, for which other tasks had to wait."""
    whole, portions, size = [], [], 0
    for _ in range(rounds):
        longest, since = 0.0, time.thread_time()

        async def others() -> None:
            nonlocal longest, since
            while True:
                longest = max(longest, time.thread_time() - since)
                since = time.thread_time()
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(others)
            await trio.lowlevel.checkpoint()
            longest, began = 0.0, time.thread_time()
            size = await ask()
            await trio.lowlevel.checkpoint()
            whole.append(time.thread_time() - began)
            portions.append(longest)
            nursery.cancel_scope.cancel()
    return {
        "kib": size / 1024,
        "ms": statistics.median(whole) * 1000,
        "held_ms": statistics.median(portions) * 1000,
        "held_worst_ms": max(portions) * 1000,
    }


def life(group: int, members: int = MEMBERS) -> list[Event]:
    """The events of members that join a group and get a partition each."""
    events = []
    for member in range(members):
        owned = (TopicPartitionSet("events", None, (member,)),)
        common: dict[str, Any] = {
            "group_id": f"group-{group:05}",
            "member_id": f"{group}-{member}",
            "protocol": "translated",
            "client_id": f"app-{member}",
        }
        events += [
            Event(kind=EventKind.JOINED, state="CompletingRebalance", owned=(), **common),
            Event(
                kind=EventKind.ASSIGNED, state="CompletingRebalance", partitions=owned, owned=owned, **common
            ),
            Event(
                kind=EventKind.STATE_CHANGED,
                previous_state="CompletingRebalance",
                state="Stable",
                owned=owned,
                **common,
            ),
        ]
    return events


def table(result: dict[str, Any]) -> str:
    """Format both tables of docs/evidence/observability-cost.md."""
    beats, registry = result["heartbeats"], result["cardinality"]
    lines = [
        "| heartbeats | without, µs of processor | with | more, median of rounds | quickest rounds | target |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for mode in ("translated", "observed"):
        one = beats[mode]
        verdict = "met" if one["met"] else "missed"
        lines.append(
            f"| {mode} | {one['without_us']:.0f} | {one['with_us']:.0f} | {one['lost']:+.1%} "
            f"| {one['lost_least']:+.1%} | {beats['target']:.0%}: {verdict} |"
        )
    lines += [
        "",
        f"{beats['rounds']} rounds of {beats['beats']} heartbeats; load {beats['load']:.0f} on {os.cpu_count()} cores.",
    ]
    counts = f"{registry['groups']:,} groups, {registry['members']:,} members"
    sizes = f"{counts}, {registry['group_labels']} with labels of their own"
    lines += [
        "",
        f"{sizes}: {registry['us_per_event']:.0f} µs an event, {registry['kib_per_group']:.1f} KiB a group.",
        "",
        "| | KiB | ms of processor | longest portion, ms: median | worst |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {name} | {one['kib']:.0f} | {one['ms']:.0f} | {one['held_ms']:.1f} | {one['held_worst_ms']:.1f} |"
        for name, one in registry["pieces"].items()
    ]
    return "\n".join(lines)


def main() -> None:
    if sys.argv[1:2] == ["bare"]:
        bare(Path(sys.argv[2]))
        return
    result = {"cardinality": cardinality(), "heartbeats": heartbeats()}
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2))
    print(table(result))


if __name__ == "__main__":
    main()
