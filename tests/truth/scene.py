"""One number of replicas: the processes, what happens to them, and the judgement of each state."""

import contextlib
import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from support.broker import Kafka
from support.entry import Proxy
from support.exporters import running_ours
from support.prometheus import Prometheus, running_prometheus

from tests.truth import facts, planted
from tests.truth.clients import Client, started
from tests.truth.facts import State, all_facts, differences
from tests.truth.kafka_says import PAST, ClientId, KafkaTools, Truth
from tests.truth.plan import Change, Kind, Step, plan

POLL_S = 5
"""Of proxies and exporters: `metrics.ask_brokers_every_s`, and the least that `exporter.every_s` may be."""
SCRAPE_S = 1
"""Between two scrapes, and two evaluations of the rules."""
PATIENCE_S = 5.0
"""For a machine with two cores: to wake up, to count, to answer a query."""
ONE_ROUND_S = POLL_S + 1 + 2 * SCRAPE_S + PATIENCE_S
"""Proxies look once a second which groups are due."""
AFTER_A_KILL_S = 120.0
SETTLES_WITHIN_S = 90.0

BROKER_SETTINGS = {
    "group.consumer.session.timeout.ms": "8000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.session.timeout.ms": "10000",
    "group.streams.session.timeout.ms": "8000",
    "group.streams.heartbeat.interval.ms": "1000",
    # Else the broker removes the empty groups of the scene before, in the middle of a state.
    "offsets.retention.check.interval.ms": "86400000",
}
PARTITIONS, RECORDS, COMMITTED = 6, 60, 3
MOST_GROUPS, MOST_MEMBERS = 12, 4
PAST_SHARE = 0.25
"""So many of the members that join come past the proxies."""

Say = Callable[[str], None]
T = TypeVar("T")


@dataclass
class PlannedGroup:
    """A group, and the clients that are to be its members."""

    id: str
    kind: Kind
    translates: bool
    clients: list[Client] = field(default_factory=list)


def _pick(those: Sequence[T], pick: float) -> T:
    return those[int(pick * len(those))]


class Scene:
    """The cluster with so many replicas before it. `run` is the whole."""

    def __init__(
        self, kafka: Kafka, tools: KafkaTools, folder: Path, replicas: int, binary: str, say: Say
    ) -> None:
        self._kafka = kafka
        self._tools = tools
        self._folder = folder
        self._say = say
        self._binary = binary
        self._topic = kafka.new_topic(partitions=PARTITIONS)
        kafka.produce(self._topic, RECORDS)
        fleet = {
            "kafka": {"bootstrap.servers": kafka.bootstrap},
            "topic": f"members-{self._topic}",
            "partitions": 4,
            "replication": 1,
            "expires": True,
        }
        self._proxies = [
            Proxy(
                kafka.bootstrap,
                folder / f"proxy-{number}",
                policy=self._policy(()),
                sole_process=replicas == 1,
                fleet=fleet if replicas > 1 else None,
                metrics={"ask_brokers_every_s": POLL_S},
            )
            for number in range(replicas)
        ]
        self._exporters = 2 if replicas == 2 else 1
        self._groups: list[PlannedGroup] = []
        self._dead: set[int] = set()
        self._ended_with_replicas = 0
        """Translated members whose clients were closed while their replica was dead."""
        self._wait_for_replicas = 0
        """Translated members whose clients wait for their dead replica."""
        self._numbers = iter(range(1, 1_000_000))
        self._closing: list[Client] = []
        self.found: dict[str, int] = {}
        """The first state in which each planted set was found wrong."""

    def run(self, seed: int, states: int) -> Iterator[dict[str, Any]]:
        """Go through the states; what was seen of each."""
        with contextlib.ExitStack() as stack:
            for proxy in self._proxies:
                proxy.start()
                stack.callback(proxy.stop)
            exporters = [
                stack.enter_context(
                    running_ours(
                        self._kafka.bootstrap, self._folder / f"exporter-{number}", {"every_s": POLL_S}
                    )
                )
                for number in range(self._exporters)
            ]
            rules = self._folder / "rules.yaml"
            rules.write_text(json.dumps(planted.rules()))
            self._prometheus: Prometheus = stack.enter_context(
                running_prometheus(
                    self._binary,
                    [proxy.scrape_target for proxy in self._proxies],
                    rules,
                    self._folder / "prometheus",
                    [one.target for one in exporters],
                )
            )
            stack.callback(self._close_all)
            for number, steps in enumerate(plan(seed, states), start=1):
                yield self._state(number, steps)

    # One state.

    def _state(self, number: int, steps: Sequence[Step]) -> dict[str, Any]:
        for replica in sorted(self._dead):
            self._proxies[replica].start()
        if self._dead:
            self._dead.clear()
            self._settled(
                time.monotonic() + AFTER_A_KILL_S
            )  # clients that waited are back before they change again
            self._wait_for_replicas = 0
        done = [text for step in steps if (text := self._change(step))]
        changed_at = time.monotonic()
        killed = bool(self._dead)
        seen: dict[str, Any] = {
            "replicas": len(self._proxies),
            "state": number,
            "changes": done,
            "killed": killed,
        }
        self._say(f"{len(self._proxies)} replicas, state {number}: {'; '.join(done) or 'nothing changes'}")
        within = AFTER_A_KILL_S if killed else SETTLES_WITHIN_S
        truth = self._settled(changed_at + within)
        settled_at = time.monotonic()
        if isinstance(truth, str):
            return seen | {"wrong": [f"the cluster did not settle: {truth}"], "facts": 0}
        while True:
            time.sleep(max(settled_at + ONE_ROUND_S - time.monotonic(), 0))
            at = time.time()
            state = State(
                truth,
                {group.id: "translate" if group.translates else "observe" for group in self._groups},
                frozenset(range(len(self._proxies))) - self._dead,
                len(self._proxies) > 1,
                self._ended_with_replicas + self._wait_for_replicas,
            )
            those = all_facts(sorted(truth.keys() & state.modes.keys()))
            wrong = [
                text
                for fact in those
                if (text := differences(fact, self._prometheus.ask(fact.expression, at), state))
            ]
            if not wrong or not killed or time.monotonic() > changed_at + AFTER_A_KILL_S:
                break
            settled_at = time.monotonic() - ONE_ROUND_S + POLL_S
        if (now := self._tools.truth()) != truth:
            wrong.append(f"the cluster changed meanwhile: {_unlike(truth, now)}")
        self._judge_planted(number, state, at)
        for text in wrong:
            self._say(f"    wrong: {text}")
        members = [one for group in truth.values() for one in group.members]
        return seen | {
            "groups": len(truth),
            "members": len(members),
            "kinds": dict(sorted(Counter(str(one.client.kind) for one in members).items())),
            "translated": sum(
                one.protocol == "consumer" and one.client.kind == Kind.CLASSIC for one in members
            ),
            "past": sum(one.client.is_past for one in members),
            "settled_s": round(settled_at - changed_at, 1),
            "judged_s": round(time.monotonic() - changed_at, 1),
            "facts": len(those),
            "wrong": wrong,
        }

    def _judge_planted(self, number: int, state: State, at: float) -> None:
        for index, one in enumerate(planted.PLANTED):
            if one.what not in self.found and any(
                differences(fact, self._prometheus.ask(fact.expression, at), state)
                for fact in facts.recorded(planted.prefix(index))
            ):
                self.found[one.what] = number

    def _settled(self, deadline: float) -> Truth | str:
        """What Kafka says once it is as it has to be; or what was lacking at the deadline."""
        while True:
            truth = self._tools.truth()
            lacks = self._lacks(truth)
            if not lacks:
                return truth
            if time.monotonic() > deadline:
                return "; ".join(lacks)
            time.sleep(1.0)

    def _lacks(self, truth: Truth) -> list[str]:
        """What Kafka does not say yet: members that are to come or to go, groups that rebalance or are converted."""
        planned = {group.id for group in self._groups}
        lacks = [
            f"{group_id} is to have no members"
            for group_id, group in truth.items()
            if group_id not in planned and group.members
        ]
        for group in self._groups:
            said = truth.get(group.id)
            due = {one.id for one in group.clients if self._is_served(one.id)}
            members = said.members if said else ()
            if Counter(one.client for one in members) != Counter(due):
                there = ", ".join(str(one.client) for one in members)
                lacks.append(f"{group.id} is to have {', '.join(map(str, due))} and has {there}")
            elif said is not None and said.state != ("Stable" if members else "Empty"):
                lacks.append(f"{group.id} is {said.state}")
            for one in members:
                moves = group.translates and one.client.kind == Kind.CLASSIC and not one.client.is_past
                new = moves or one.client.kind == Kind.NATIVE
                if one.client.kind in (Kind.CLASSIC, Kind.NATIVE) and new != (one.protocol == "consumer"):
                    lacks.append(f"{one.client} of {group.id} is still {one.protocol}")
        return lacks

    def _is_served(self, client: ClientId) -> bool:
        return client.is_past or int(client.entry.removeprefix("via")) not in self._dead

    # Changes.

    def _change(self, step: Step) -> str:
        """Make a change; empty if there is nothing to change."""
        first, second, third = step.picks[:3]
        with_members = [group for group in self._groups if group.clients]
        match step.change:
            case Change.NEW_GROUP if len(self._groups) < MOST_GROUPS:
                return self._new_group(step)
            case Change.ADD:
                those = [
                    one
                    for one in self._groups
                    if one.kind is not Kind.COMMITS and len(one.clients) < MOST_MEMBERS
                ]
                if those:
                    return f"{self._join(_pick(those, first), second, third)} joins"
            case Change.CLOSE if with_members:
                group = _pick(with_members, first)
                client = _pick(group.clients, second)
                self._leave(group, client)
                return f"{client.id} leaves"
            case Change.MOVE if with_members:
                group = _pick(with_members, first)
                client = _pick(group.clients, second)
                self._leave(group, client)
                others = [one for one in (*self._entries(), PAST) if one != client.id.entry]
                return f"{client.id} moves: {self._start(group, _pick(others, third), client.id.kind)}"
            case Change.SWITCH:
                those = [one for one in self._groups if one.kind in (Kind.CLASSIC, Kind.MIXED)]
                if those:
                    group = _pick(those, first)
                    group.translates = not group.translates
                    self._write_policies()
                    return f"{group.id} is to be {'translated' if group.translates else 'observed'}"
            case Change.EMPTY | Change.DELETE if with_members:
                group = _pick(with_members if second < 0.8 else self._groups, first)
                for client in list(group.clients):
                    self._leave(group, client)
                if step.change is Change.DELETE:
                    self._delete(group)
                    return f"{group.id} is deleted"
                return f"{group.id} is emptied"
            case Change.KILL:
                return self._kill(step)
            case _:
                pass
        return ""

    def _new_group(self, step: Step) -> str:
        have = Counter(group.kind for group in self._groups)
        fewest = min(have[kind] for kind in Kind)
        kind = _pick([kind for kind in Kind if have[kind] == fewest], step.picks[0])
        number = next(self._numbers)
        group = PlannedGroup(f"{kind}-{len(self._proxies)}-{number}", kind, translates=step.picks[1] < 0.6)
        group.translates &= kind in (Kind.CLASSIC, Kind.MIXED)
        self._groups.append(group)
        self._write_policies()
        if kind is Kind.COMMITS:
            self._kafka.commit(group.id, {(self._topic, 0): COMMITTED})
            return f"{group.id} has commits"
        members = 1 + int(step.picks[2] * 3)
        joined = [self._join(group, *step.picks[3 + i : 5 + i]) for i in range(members)]
        return f"new {group.id}: {', '.join(joined)}"

    def _join(self, group: PlannedGroup, entry: float, kind: float) -> str:
        """A further member, at the entry that the first number picks."""
        own: str = group.kind
        if group.kind is Kind.MIXED:
            have = Counter(one.id.kind for one in group.clients)
            own = Kind.NATIVE if have[Kind.NATIVE] < have[Kind.CLASSIC] or kind < 0.3 else Kind.CLASSIC
        entries = self._entries()
        place = PAST if entry < PAST_SHARE else _pick(entries, (entry - PAST_SHARE) / (1 - PAST_SHARE))
        return self._start(group, place, own)

    def _entries(self) -> list[str]:
        return [f"via{number}" for number in range(len(self._proxies)) if number not in self._dead] or [PAST]

    def _start(self, group: PlannedGroup, entry: str, kind: str) -> str:
        client = ClientId(entry, kind, next(self._numbers))
        bootstrap = (
            self._kafka.bootstrap
            if client.is_past
            else self._proxies[int(entry.removeprefix("via"))].bootstrap
        )
        group.clients.append(started(bootstrap, group.id, self._topic, client))
        return str(client)

    def _leave(self, group: PlannedGroup, client: Client) -> None:
        group.clients.remove(client)
        client.close()
        self._closing.append(client)

    def _delete(self, group: PlannedGroup) -> None:
        """Delete it as soon as its members have left; without them it may be gone by itself."""
        deadline = time.monotonic() + SETTLES_WITHIN_S
        while (found := self._tools.truth().get(group.id)) is not None:
            if not found.members:
                self._tools.delete(group.id, found.type)
            if time.monotonic() > deadline:
                return  # then it does not settle: the group is there, and is to have no members
            time.sleep(0.5)
        self._groups.remove(group)

    def _kill(self, step: Step) -> str:
        """Kill a replica. Half of its clients are started again elsewhere; the others wait for it."""
        replica = _pick(range(len(self._proxies)), step.picks[0])
        truth = self._settled(time.monotonic() + SETTLES_WITHIN_S)  # what the log names is certain then
        translated = set() if isinstance(truth, str) else {one.client for one in facts.translated(truth)}
        self._proxies[replica].kill()
        self._dead.add(replica)
        moved = list[str]()
        if len(self._proxies) > 1:
            for group in self._groups:
                for client in [one for one in group.clients if one.id.entry == f"via{replica}"]:
                    if client.id in translated and client.id.number % 2:
                        self._ended_with_replicas += 1
                    elif client.id in translated:
                        self._wait_for_replicas += 1
                    if client.id.number % 2:
                        self._leave(group, client)
                        moved.append(
                            self._start(group, _pick(self._entries(), step.picks[1]), client.id.kind)
                        )
        return f"replica {replica} is killed ({len(moved)} clients move)"

    def _policy(self, translated: Sequence[str]) -> str:
        rules = [{"group": group, "mode": "translate"} for group in translated]
        return json.dumps({"default": "observe", "rules": rules})

    def _write_policies(self) -> None:
        text = self._policy([group.id for group in self._groups if group.translates])
        for proxy in self._proxies:
            new = proxy.folder / "policy.new"
            new.write_text(text)
            new.replace(proxy.folder / "policy.yaml")

    def _close_all(self) -> None:
        """Leave all groups, which stay as they are."""
        for group in self._groups:
            for client in list(group.clients):
                self._leave(group, client)
        for client in self._closing:
            client.wait_closed()


def _unlike(before: Truth, after: Truth) -> str:
    return "; ".join(
        f"{group_id}: {before.get(group_id)} and then {after.get(group_id)}"
        for group_id in sorted(before.keys() | after.keys())
        if before.get(group_id) != after.get(group_id)
    )


def emptied(folder: Path) -> Path:
    """Return the folder without what was in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
