"""Groups that are moved by steps with gates, each with a client that does harm, and what becomes of them."""

import contextlib
import json
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.broker import Kafka
from support.clients import CONFLUENT
from support.consumers import ConsumerProcess, Consumers
from support.entry import Proxy
from support.load import Load
from support.misbehaving import Misbehaving, crashes_again_and_again
from support.waiting import eventually

PARTITIONS = 4
QUICK = Path(__file__).parent / "quick_gates.py"
"""Judges by windows of three seconds."""
POLICY = """\
default: observe
rules:
  - {pattern: "single-.*", mode: translate, steps: [1, "100%"], hold_s: 0, abort_if: {}}
  - {pattern: "moving-.*", mode: translate, steps: [2, "100%"], hold_s: 0, abort_if: {}}
  - {pattern: "lagging-.*", mode: translate, steps: [2, "100%"], hold_s: 0, abort_if: {
      lag: 300}}
  - {pattern: "pausing-.*", mode: translate, steps: [2, "100%"], hold_s: 0, abort_if: {
      unowned_s: null, rejoins: null, pause_p99_ms: 5000}}
"""
STEP = 2
"""The first step of all but `single-.*`: the well-behaved client and the one that does harm."""
STOPPED_WITHIN_S = 60.0
BACK_WITHIN_S = 60.0
REBALANCE_TIMEOUT_S = 60.0
"""`max_poll_interval_ms` of the drivers."""


def moves(proxy: Proxy) -> dict[str, dict[str, Any]]:
    """The moves of all groups in /api/groups, by group."""
    with urllib.request.urlopen(f"{proxy.admin}/api/groups", timeout=30) as answer:  # noqa: S310  the proxy's own
        groups = json.load(answer)["groups"]
    return {one["id"]: one["move"] for one in groups if one["move"]}


def kinds(kafka: Kafka, group: str) -> Counter[str]:
    """How many members the broker has of each kind; a classic group has classic ones only."""
    described = kafka.describe(group)
    if described is not None:
        return Counter(one.member_type for one in described.members)
    return Counter(classic=len(kafka.describe_classic(group).members))


class Story:
    """Groups that are moved, each by its own topic, with a well-behaved client beside the one that does harm."""

    def __init__(
        self,
        kafka: Kafka,
        consumers: Consumers,
        proxy: Proxy,
        stack: contextlib.ExitStack,
        group: str,
    ) -> None:
        self.kafka, self.consumers, self.proxy = kafka, consumers, proxy
        self._stack, self._group = stack, group
        self.harmed: dict[str, Callable[[], float]] = {}
        """By group: since when there is harm, 0 while there is none."""
        self.expected: dict[str, str] = {}
        self.stuck: set[str] = set()
        """Groups with members that do not answer: all are classic again when their rebalance timeouts have ended."""
        self._calm: dict[str, Callable[[], None]] = {}
        """Ends the harm in a group."""

    def new_group(self, name: str, kind: str = "moving") -> tuple[str, str]:
        """A group and its topic, on which records flow, with one client that heartbeats seldom."""
        group, topic = f"{kind}-{name}-{self._group}", self.kafka.new_topic(partitions=PARTITIONS)
        self._stack.enter_context(Load(self.kafka, topic))
        self.client(group, topic, heartbeat_interval_ms=3_000, session_timeout_ms=10_000)
        return group, topic

    def client(self, group: str, topic: str, **spec: object) -> ConsumerProcess:
        """One more client of a group."""
        return self.consumers.start(CONFLUENT, self.proxy.bootstrap, group, topic, "range", **spec)

    def misbehaves(
        self, name: str, harm: Callable[[Misbehaving], None], gate: str, kind: str = "moving"
    ) -> None:
        """A group in which a raw member does harm once it is translated."""
        group, topic = self.new_group(name, kind)
        member = Misbehaving(self.proxy.bootstrap, group, topic, PARTITIONS, harm)
        self._stack.enter_context(member)
        self.harmed[group], self.expected[group] = lambda: member.harmed_at, gate
        self._calm[group] = member.calm_down
        if harm is crashes_again_and_again:
            self.stuck.add(group)

    def does_harm(
        self,
        name: str,
        harm: Callable[[ConsumerProcess, str], ConsumerProcess | None],
        gate: str = "",
        *,
        waits: bool = True,
    ) -> str:
        """A group in which a real client does harm each second, once both clients are translated.

        `harm` returns the client, or None if it is gone. If it `waits`, it first gets partitions each time.
        """
        kind = "lagging" if gate == "lag" else "moving"
        group, topic = self.new_group(name, kind)
        spec = {"heartbeat_interval_ms": 300, "name": f"bad-{name}"}
        started: list[float] = []
        stopping = threading.Event()

        def run() -> None:
            client = self.client(group, topic, **spec)
            while not stopping.wait(1.0):
                if waits and not client.owned():
                    continue
                if started or kinds(self.kafka, group)["consumer"] == STEP:
                    started[:] = started or [time.monotonic()]
                    if harm(client, topic) is None:
                        client = self.client(group, topic, **spec)

        thread = threading.Thread(target=run, name=f"harm in {group}")
        thread.start()
        self._stack.callback(thread.join)
        self._stack.callback(stopping.set)
        self.harmed[group], self.expected[group] = lambda: started[0] if started else 0.0, gate
        self._calm[group] = stopping.set
        return group

    def are_stopped(self) -> dict[str, dict[str, object]]:
        """Each is stopped within a minute of its first harm, by the gate that it has to be, and all are classic again.

        If any gate may be the one, it may also be held instead of aborted: the only translated member has left.
        Returns what was seen of each: its reason, how many seconds passed until it was stopped, and then until its
        members were classic again.
        """
        seen: dict[str, dict[str, object]] = {}
        stopped: dict[str, float] = {}
        left = set(self.harmed)

        def look() -> set[str]:
            found, now = moves(self.proxy), time.monotonic()
            for group in list(left):
                move, since = found.get(group), self.harmed[group]()
                members = kinds(self.kafka, group)
                assert members["consumer"] <= STEP, (group, members)
                if group in stopped:
                    if not members["consumer"]:
                        seen[group]["classic_s"] = round(now - stopped[group], 1)
                        left.discard(group)
                    else:
                        allowed_s = self._may_take_s(group, members.total())
                        assert now - stopped[group] < allowed_s, (group, members, seen)
                elif move and move["phase"] in {"aborted", "held"}:
                    assert move["phase"] == "aborted" or not self.expected[group], (group, move)
                    assert self.expected[group] in move["why"], (group, move["why"])
                    assert since, f"{group} was stopped before there was harm: {move['why']}"
                    stopped[group] = now
                    # One that goes on crashing leaves a member with partitions every second, for whose rebalance
                    # timeout the last translated member has to wait.
                    self._calm[group]()
                    seen[group] = {
                        "phase": move["phase"],
                        "why": move["why"],
                        "stopped_s": round(now - since, 1),
                    }
                elif since and now - since > STOPPED_WITHIN_S:
                    raise AssertionError(f"{group} was not stopped: {move}")
            return left

        eventually(
            look,
            lambda groups: not groups,
            what="all moves with harm are stopped and their members classic",
            timeout_s=300,
            between_s=0.5,
        )
        return seen

    def _may_take_s(self, group: str, members: int) -> float:
        stuck_s = REBALANCE_TIMEOUT_S if group in self.stuck else 0
        return BACK_WITHIN_S + stuck_s
