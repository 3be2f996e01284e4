"""Runs two replicas under traffic among hostile peers: no client may rejoin because of them, and nothing may grow.

    python -m benchmarks.soak_under_fire --minutes 30 [--fire garbage,hook,admin,rights,settings]

Two replicas with a member log (the chart's settings), real consumers of one group at both, consumers straight at Kafka,
and clients that come and go. All the time somebody writes garbage into the member log, a hook lies to the groups that
it is asked about, and strangers are at the admin ports. In turn a right of the log's account is withdrawn and given
back, and a setting of its topic is changed and restored.

It has failed (exit code 1) if a consumer got an assignment after the fire had begun and none straight at Kafka did, if
a process has ended that serves, if a group has moved that a hook was asked about, if a client waited in vain, if a
replica did not come back to readiness after a turn, or if what a replica uses at rest has grown
(:data:`benchmarks.soak.BOUNDS`). The report is build/soak-under-fire.json.
"""

import argparse
import contextlib
import itertools
import json
import random
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.attacks.admin_port import AdminFire
from benchmarks.attacks.foreign_records import TopicWriter, garbage
from benchmarks.attacks.lying_hook import LyingHook
from benchmarks.attacks.secured_log import (
    LISTENER,
    PARTITIONS,
    WITH_ACLS,
    as_yaml,
    fleet_of_log,
    journal_of_log,
    topic_of_log,
)
from benchmarks.attacks.topic_changes import RIGHTS, WRONG, TopicOfLog
from benchmarks.lib.soak_clients import ConsumerProcess, start_consumer
from benchmarks.lib.test_bed import BUILD, Gateway, kafka
from benchmarks.soak import CONSUMERS, LEAST_ROUNDS, ROUND_S, Traffic, judged, left_over_at, metric, rest

REPORT = BUILD / "soak-under-fire.json"
REPLICAS = 2
STEPPED = 3
"""Groups that a hook is asked about, each with one consumer."""
PARTITIONS_OF_CLIENTS = 8
GARBAGE_A_SECOND = 50
REQUESTS_A_SECOND = 20
SETTLES_S = 45.0
KINDS: Mapping[str, Sequence[str]] = {
    "garbage": (),
    "hook": (),
    "admin": (),
    "rights": tuple(right.name for right in RIGHTS),
    "settings": tuple(WRONG),
}
"""Of fire, with what each changes and changes back in turn."""
_RIGHTS = {right.name: right for right in RIGHTS}
PAUSE_S, WITHDRAWN_S = 5.0, 15.0
NOTICED_S = 90.0
"""A wrong setting is noticed within 60 s, and shown until it is mended."""
HEALS_S = 300.0
"""A machine that others use may take its time; how long each turn took is in the report."""
DEAD_ID_BYTES = 750
"""A replica keeps each dead member id for an hour, by design: no epoch -1 for it is under way any more then. One takes
so much by tracemalloc."""
_DEAD = re.compile(
    r"^epochgate_fleet_"
    r'(?:records_total\{(?=.*kind="ended")(?=.*direction="read").*|members\{state="expiring")\} (\S+)$',
    re.MULTILINE,
)
"""The ended ones, and those whose end is not known: the log was away when their clients went."""
LINGERING = "epochgate_lingering_upstream_connections"
FORGED_AT = "epochgate_fleet_records_ignored_total"
WRONG_SETTINGS = "epochgate_fleet_topic_settings_wrong"
POLICY = """\
default: observe
rules:
  - {pattern: "translated-.*", mode: translate}
  - {pattern: "stepped-.*", mode: translate, steps: [1, "100%"], hold_s: 0}
"""


class Fire:
    """The threads of everybody hostile. ``turns`` has what each change of rights or settings came to."""

    def __init__(
        self, replicas: list[Gateway], topic: TopicOfLog, bootstrap: str, seed: int, kinds: Collection[str]
    ) -> None:
        self._replicas, self._topic = replicas, topic
        self._to_change = [what for kind in KINDS if kind in kinds for what in KINDS[kind]]
        self._dice = random.Random(seed)
        self._writer = TopicWriter(bootstrap, topic.name, PARTITIONS)
        self._admin = AdminFire([one.admin for one in replicas], seed)
        self._over = threading.Event()
        self.between_turns = threading.Lock()
        """While somebody else holds it, no right is withdrawn and no setting is wrong."""
        self.turns: list[dict[str, Any]] = []
        self.broken: list[str] = []
        """What ended a thread of these, which is a fault of the soak."""
        self._threads = [
            threading.Thread(target=self._guarded, args=(work,), name=work.__name__, daemon=True)
            for work, is_part in (
                (self._write_garbage, "garbage" in kinds),
                (self._call_admin, "admin" in kinds),
                (self._change_the_topic, bool(self._to_change)),
            )
            if is_part
        ]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> dict[str, Any]:
        """End, with all rights given back and all settings restored; return what was done."""
        self._over.set()
        for thread in self._threads:
            thread.join(2 * (NOTICED_S + HEALS_S))
        self._admin.end()
        return {
            "records written": self._writer.written,
            "records that the broker refused": self._writer.failed,
            "requests to admin ports": self._admin.sent,
            "turns": self.turns,
            "broken": self.broken,
        }

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            self.broken.append(f"{work.__name__}: {error!r}")
            raise

    def _write_garbage(self) -> None:
        while not self._over.wait(1.0):
            self._writer.write(garbage(self._dice, PARTITIONS) for _ in range(GARBAGE_A_SECOND))

    def _call_admin(self) -> None:
        while not self._over.wait(1 / REQUESTS_A_SECOND):
            self._admin.turn()

    def _change_the_topic(self) -> None:
        """One turn after another. What was changed is changed back, also at the end."""
        for name in itertools.cycle(self._to_change):
            if self._over.wait(PAUSE_S):
                return
            with self.between_turns:
                healed, took_s = self._turn(name)
            self.turns.append({"what": name, "healed": healed, "after_s": took_s})
            print(f"  {name}: {'ready again' if healed else 'NOT READY'} after {took_s} s", flush=True)

    def _turn(self, name: str) -> tuple[bool, float]:
        """Change something, and change it back; return whether all replicas are as before, and after how long."""
        if (right := _RIGHTS.get(name)) is not None:
            self._topic.withdraw(right)
            self._over.wait(WITHDRAWN_S)
            began = time.monotonic()
            self._topic.give_back(right)
            healed = self._until(self._is_ready)
        else:
            self._topic.set(name, WRONG[name])
            noticed = self._until(lambda: self._all(WRONG_SETTINGS, 1.0), NOTICED_S)
            if not noticed and not self._over.is_set():
                self.broken.append(f"{name} was not noticed")
            began = time.monotonic()
            self._topic.restore(name)
            healed = self._until(lambda: self._is_ready() and self._all(WRONG_SETTINGS, 0.0), NOTICED_S)
        return healed, round(time.monotonic() - began, 1)

    def _until(self, is_so: Callable[[], bool], within_s: float = HEALS_S) -> bool:
        """Wait for it, whether the soak goes on or not."""
        deadline = time.monotonic() + within_s
        while not is_so():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.5)
        return True

    def _is_ready(self) -> bool:
        return all(one.is_ready() for one in self._replicas) and self._all("epochgate_fleet_log_refused", 0.0)

    def _all(self, name: str, value: float) -> bool:
        with contextlib.suppress(OSError):
            return all(metric(one, name) == value for one in self._replicas)
        return False


def soak(
    minutes: float, *, seed: int = 1, kinds: Collection[str] = KINDS, settles_s: float = SETTLES_S
) -> dict[str, Any]:
    """Run it with these kinds of fire, and return the report."""
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(kafka(LISTENER, **WITH_ACLS))
        hook = stack.enter_context(LyingHook().running())
        name = uuid4().hex[:6]
        log = topic_of_log(cluster, f"members-{name}")
        sections = {
            "sole_process": False,
            "fleet": fleet_of_log(cluster.bootstrap_of("SASL"), log.name),
            "journal": journal_of_log(cluster, f"journal-{name}"),
            **({"hook": {"url": hook.url}} if "hook" in kinds else {}),
        }
        replicas = [
            stack.enter_context(_replica(cluster.bootstrap, f"soak-under-fire-{number}", as_yaml(sections)))
            for number in range(REPLICAS)
        ]
        topic = f"soak-{name}"
        config = {"retention.bytes": str(64 * 2**20), "segment.bytes": str(16 * 2**20)}
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        made = NewTopic(topic, PARTITIONS_OF_CLIENTS, 1, config=config)
        admin.create_topics([made])[topic].result(30)
        clients = _Clients(cluster.bootstrap, replicas, topic, settles_s, STEPPED if "hook" in kinds else 0)
        stack.callback(clients.end)
        clients.start()
        began = clients.settled()
        fire = Fire(replicas, log, cluster.bootstrap, seed, kinds)
        fire.start()
        try:
            rests = _live(replicas, clients, fire, minutes * 60)
        finally:
            done = fire.stop()
        stepped = [_move_of(one, name) for one in replicas for name in clients.stepped]
        ignored = [metric(one, FORGED_AT) for one in replicas]
        alive = all(one.process.poll() is None for one in replicas)
        fire_ended = time.monotonic()
        unclosed = clients.stop()
        clients.end()
        return report_of(
            minutes, rests, done,
            {
                **clients.counted(began, fire_ended),
                "consumers that did not close": [str(one) for one in unclosed],
                "left over at the replicas": [left_over_at(one) for one in replicas],
                "records ignored": ignored,
                "hook asked": hook.asked,
                "moves that a hook was asked about": stepped,
                "replicas alive": alive,
            },
            kinds,
        )  # fmt: skip


@contextlib.contextmanager
def _replica(bootstrap: str, name: str, more: str) -> Iterator[Gateway]:
    running = Gateway(bootstrap, BUILD / "bench" / name, more=more)
    (running.folder / "policy.yaml").write_text(POLICY)
    running.log.unlink(missing_ok=True)
    running.start()
    try:
        yield running
    finally:
        running.stop()


def _move_of(replica: Gateway, group: str) -> str:
    """What is shown of a group's move; empty if it is not known there."""
    with contextlib.suppress(OSError):
        return str((json.loads(replica.get(f"api/groups/{group}"))["move"] or {}).get("text", ""))
    return ""


class _Clients:
    """Consumers at both replicas and straight at Kafka, others in groups with a hook, and clients that come and go."""

    def __init__(
        self, bootstrap: str, replicas: list[Gateway], topic: str, settles_s: float, stepped: int
    ) -> None:
        self.stepped = [f"stepped-{topic}-{number}" for number in range(stepped)]
        self._settles_s = settles_s
        self._through = [
            Traffic(one.bootstrap, topic, one.folder, records_a_turn=2, churns=True) for one in replicas
        ]
        folder = replicas[0].folder / "straight"
        folder.mkdir(exist_ok=True)
        self._straight = Traffic(
            bootstrap,
            topic,
            folder,
            group=f"straight-{topic}",
            records_a_turn=2,
            churns=False,
            consumers=REPLICAS * CONSUMERS,
        )
        self._all = [*self._through, self._straight]
        self._stepped: list[ConsumerProcess] = []
        self._running: list[Callable[[], object]] = [one.end for one in self._all]
        self._where, self._topic = replicas[0], topic

    def start(self) -> None:
        """Start all of them."""
        for one in self._all:
            one.start()
        for name in self.stepped:
            self._stepped.append(
                start_consumer(name, self._where.bootstrap, name, self._topic, self._where.folder)
            )
            self._running.append(self._stepped[-1].end)

    def settled(self) -> float:
        """Wait until every group has come to rest, and return that time (time.monotonic)."""
        time.sleep(self._settles_s)
        return time.monotonic()

    @contextlib.contextmanager
    def resting(self) -> Iterator[None]:
        """Let no client come or go meanwhile."""
        with contextlib.ExitStack() as stack:
            for one in self._all:
                stack.enter_context(one.resting)
            yield

    def stop(self) -> list[Any]:
        """End all in order; return the consumers that do not close."""
        for consumer in self._stepped:
            consumer.tell_to_close()
        return [unclosed for one in self._all for unclosed in one.stop()]

    def end(self) -> None:
        """End who still runs; then what they say is complete."""
        running, self._running = self._running, []
        for end in running:
            end()

    def counted(self, began: float, ended: float) -> dict[str, Any]:
        """Return rejoins between two moments, and what the clients did."""

        def rejoins(traffic: Traffic) -> list[int]:
            return [sum(began < at < ended for at in each) for each in traffic.assigned_at]

        return {
            "rejoins through": [rejoins(one) for one in self._through],
            "rejoins straight": rejoins(self._straight),
            "assignments before": [
                [sum(at < began for at in each) for each in one.assigned_at] for one in self._all
            ],
            "why through": dict(sum((one.why_rejoined for one in self._through), Counter())),
            "why straight": dict(self._straight.why_rejoined),
            "unanswered calls": sum(one.unanswered for one in self._all),
            "produced": sum(one.produced for one in self._all),
            "consumed": sum(one.consumed for one in self._all),
            "came and went": sum(one.came_and_went for one in self._all),
        }


def _live(
    replicas: list[Gateway], clients: _Clients, fire: Fire, seconds: float
) -> list[list[dict[str, float]]]:
    """Run rounds with a pause of churn and turns after each; return what each replica used in the pauses."""
    rounds = max(LEAST_ROUNDS, round(seconds / ROUND_S))
    rests: list[list[dict[str, float]]] = [[] for _ in replicas]
    for number in range(1, rounds + 1):
        time.sleep(seconds / rounds)
        with fire.between_turns, clients.resting():
            _until_nobody_lingers(replicas)
            for one, found in zip(replicas, rests, strict=True):
                found.append(_without_dead_ids(one, rest(one)))
        print(f"  round {number} of {rounds}, at rest: {[found[-1] for found in rests]}", flush=True)
    return rests


def _until_nobody_lingers(replicas: list[Gateway]) -> None:
    """Wait for members whose clients went while the topic had a wrong setting: none is expired until it is mended."""
    ends = time.monotonic() + HEALS_S
    while any(metric(one, LINGERING) for one in replicas) and time.monotonic() < ends:
        time.sleep(1.0)


def _without_dead_ids(replica: Gateway, used: dict[str, float]) -> dict[str, float]:
    """Take out of the memory what the dead member ids of clients that have come and gone need, which is no leak."""
    dead = _DEAD.findall(replica.get("metrics"))
    mib = sum(map(float, dead)) * DEAD_ID_BYTES / 2**20
    alive = metric(replica, "epochgate_fleet_members")
    return {
        **used,
        "memory_mib": used["memory_mib"] - mib,
        "of dead ids, MiB": mib,
        "members in the log": alive,
    }


def report_of(
    minutes: float,
    rests: list[list[dict[str, float]]],
    fire: dict[str, Any],
    found: dict[str, Any],
    kinds: Collection[str] = KINDS,
) -> dict[str, Any]:
    """Return the report, with the faults of these kinds of fire."""
    uses = [judged(one) for one in rests]
    most = max(found["rejoins straight"])
    moves = filter(None, found["moves that a hook was asked about"])
    faults = {
        "a replica has grown": not all(one["flat"] for one in uses),
        "a consumer rejoined": any(count > most for one in found["rejoins through"] for count in one),
        "a replica has ended": not found["replicas alive"],
        "a group moved though its hook did not agree": any("before step 1" not in move for move in moves),
        "the hook was never asked": "hook" in kinds and not found["hook asked"],
        "no garbage was read": "garbage" in kinds and not all(found["records ignored"]),
        "a call was not answered": found["unanswered calls"] > 0,
        "something is left over": any(found["left over at the replicas"]),
        "a turn was not healed": not all(turn["healed"] for turn in fire["turns"]),
        "nothing was changed": any(KINDS[kind] for kind in kinds) and not fire["turns"],
        "the fire went out": bool(fire["broken"]),
    }  # fmt: skip
    return {
        "minutes": minutes,
        "kinds of fire": list(kinds),
        "faults": [what for what, is_so in faults.items() if is_so],
        "replicas": [one["rows"] for one in uses],
        "fire": fire,
        **found,
    }


def main() -> int:
    """Run it, and write the report."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.soak_under_fire",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1, help="of the garbage")
    parser.add_argument("--fire", default=",".join(KINDS), help=f"some of {','.join(KINDS)}, or none")
    options = parser.parse_args()
    kinds = options.fire.split(",") if options.fire != "none" else []
    if not set(kinds) <= KINDS.keys():
        parser.error(f"--fire: some of {','.join(KINDS)}, or none")
    report = soak(options.minutes, seed=options.seed, kinds=kinds)
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))
    return 1 if report["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
