"""Feeds the journal's topic for as long as wanted, follows it by `progress --audit`, and measures how it stands.

`python -m benchmarks.stream --minutes 60 --rate 2000`. A broker of its own, a topic of four partitions, and a model of
a fleet of 200 groups of five members at three replicas, which rebalance all the time. Once in a while a violation is
planted: a member gets a partition that another one keeps. Measured are the metrics that the command serves, the
resident memory of its processes, and how long after its event each violation was in the metrics. State stops growing
after twice the lateness; what came then is shown by halves, which are the same if it is flat. The figures go into
docs/evidence/stream.md.
"""

import argparse
import contextlib
import itertools
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "integration"))  # its `support`: a broker

from confluent_kafka import Producer  # noqa: E402
from prometheus_client.parser import text_string_to_metric_families  # noqa: E402
from support import find_broker  # noqa: E402
from support.children import ending_with_its_parent  # noqa: E402

from tools.spark_connector.jars import ensure_connector  # noqa: E402

BUILD = ROOT / "build" / "bench-stream"
PAGE = ROOT / "docs" / "evidence" / "stream.md"
BEGIN, END = "<!-- figures -->\n", "<!-- /figures -->\n"
TOPIC, PARTITIONS = "epochgate-journal", 4
GROUPS, MEMBERS, REPLICAS, OWNED = 200, 5, 3, 12
ALIVE_S, LOOK_S, TICK_S = 5.0, 15.0, 0.1
PREFIX = "epochgate_progress_"
ROWS = 12
"""Of the samples so many are in the page."""


class Planted(NamedTuple):
    """A violation: its group, and the time of the event that gave a partition to a second owner."""

    group: str
    at_us: int


class Fleet:
    """Writes the events of all processes, in their order, with the time as it is."""

    def __init__(self, write: Callable[[str, bytes], None]) -> None:
        self._write = write
        self._random = random.Random(1)
        self._seqs = [0] * REPLICAS
        self.events = 0
        self._epoch = itertools.count(1)
        self.owned = {
            group: [set(range(member, OWNED, MEMBERS)) for member in range(MEMBERS)]
            for group in (f"group-{number}" for number in range(GROUPS))
        }
        for group in self.owned:
            for member in range(MEMBERS):
                self.tell(group, member, "joined", "PrepareRebalance", owned=set())
                self.tell(group, member, "assigned", "Stable")

    def alive(self) -> None:
        """As a proxy writes every few seconds."""
        for replica in range(REPLICAS):
            self._event(
                replica, "", {"kind": "alive", "group": "", "member": "", "protocol": "", "owned": None}
            )

    def tell(self, group: str, member: int, kind: str, state: str, owned: set[int] | None = None) -> int:
        """An event of a member; its time."""
        held = sorted(self.owned[group][member] if owned is None else owned)
        partitions = [{"topic": f"topic-of-{group}", "id": group, "partitions": held}] if held else []
        about = {
            "kind": kind, "group": group, "mode": "translate", "protocol": "translated",
            "member": f"{group}-member-{member}", "instance": None, "client_id": "app", "client_host": "10.0.0.7",
            "software": "apache-kafka-java/3.7.0", "generation": next(self._epoch), "epoch": 1, "state": state,
            "previous_state": "", "owned": partitions, "reason": "",
        }  # fmt: skip
        return self._event((hash_of(group) + member) % REPLICAS, group, about)

    def _event(self, replica: int, key: str, about: dict[str, Any]) -> int:
        self._seqs[replica] += 1
        self.events += 1
        time_us = time.time_ns() // 1000
        head = {
            "v": 1,
            "replica": f"proxy-{replica}",
            "boot": "b0",
            "seq": self._seqs[replica],
            "time_us": time_us,
        }
        self._write(key, json.dumps(head | about, separators=(",", ":")).encode())
        return time_us

    def rebalance(self) -> None:
        """All members of a group join again, and one partition goes from one to another."""
        group = self._random.choice(list(self.owned))
        held = self.owned[group]
        giver = self._random.choice([number for number, owned in enumerate(held) if owned])
        taker = self._random.randrange(MEMBERS)
        partition = min(held[giver])
        for member in range(MEMBERS):
            self.tell(group, member, "state_changed", "PrepareRebalance")
            if member == giver:
                held[giver].discard(partition)
            self.tell(group, member, "joined", "PrepareRebalance")
            self.tell(group, member, "state_changed", "CompletingRebalance")
        held[taker].add(partition)
        for member in range(MEMBERS):
            self.tell(group, member, "assigned", "Stable")
            self.tell(group, member, "state_changed", "Stable")

    def violate(self) -> Planted:
        """A member gets a partition that another one keeps. The group is left alone from then on."""
        group = self._random.choice(list(self.owned))
        held = self.owned.pop(group)
        giver = next(number for number, owned in enumerate(held) if owned)
        self.owned[group] = held
        taker = (giver + 1) % MEMBERS
        at_us = self.tell(group, taker, "assigned", "Stable", owned=held[taker] | {min(held[giver])})
        del self.owned[group]
        return Planted(group, at_us)


def hash_of(group: str) -> int:
    """Return the same number in every process."""
    return sum(group.encode())


class Sample(NamedTuple):
    """What was measured at a moment."""

    seconds: float
    events: int
    behind: float
    audit_lag_s: float
    tables_lag_s: float
    state_rows: float
    state_mib: float
    waiting: float
    memory_mib: float
    late: float


@contextlib.contextmanager
def following(bootstrap: str, out: Path, port: int, options: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """The command as a process group of its own."""
    conf = {
        "spark.jars": ",".join(map(str, ensure_connector())),
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC",
    }
    command = [
        sys.executable, "-m", "proxy.cli", "pipeline", "progress", "--out", str(out), "--from", bootstrap,
        "--topic", TOPIC, "--audit", "--audit-shards", "2", "--metrics-port", str(port), "--master", "local[2]",
        *options,
        *(part for name, value in conf.items() for part in ("--conf", f"{name}={value}")),
    ]  # fmt: skip
    with (BUILD / "progress.log").open("wb") as log:
        process = subprocess.Popen(
            ending_with_its_parent(command), stdout=log, stderr=log, cwd=ROOT, start_new_session=True
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def metrics(port: int) -> dict[tuple[str, str], float]:
    """Return the metrics by name and label; none if the command does not serve them yet."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
    except OSError:
        return {}
    return {
        (sample.name, next(iter(sample.labels.values()), "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def memory_mib(group: int) -> float:
    """Return the resident memory of a process group; shared pages count in each process."""
    total = 0
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError, StopIteration, ValueError):
            if os.getpgid(int(status.parent.name)) == group:
                line = next(one for one in status.read_text().splitlines() if one.startswith("VmRSS"))
                total += int(line.split()[1])
    return total / 1024


def sample(found: dict[tuple[str, str], float], began: float, events: int, group: int) -> Sample:
    """Return a sample from the metrics."""

    def of(name: str) -> list[float]:
        return [value for (one, _), value in found.items() if one == PREFIX + name]

    return Sample(
        time.monotonic() - began,
        events,
        max(of("behind_records"), default=0),
        max(of("audit_lag_seconds"), default=0),
        max(of("event_lag_seconds"), default=0),
        sum(of("state_rows")),
        sum(of("state_bytes")) / 2**20,
        sum(of("audit_waiting_events")),
        memory_mib(group),
        sum(of("audit_late_events_total")) + sum(of("late_events_total")),
    )


class Load(NamedTuple):
    """What the topic is fed with: for how long, events a second, and how many violations."""

    minutes: float
    rate: int
    violations: int


def measure(load: Load, options: list[str], port: int) -> dict[str, Any]:
    """Run it all; return what was measured."""
    shutil.rmtree(BUILD, ignore_errors=True)
    BUILD.mkdir(parents=True)
    out = BUILD / "progress"
    samples: list[Sample] = []
    planted: list[Planted] = []
    told: list[float] = []
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(find_broker.from_maven())
        broker.new_topic(name=TOPIC, partitions=PARTITIONS)
        process = stack.enter_context(following(broker.bootstrap, out, port, options))
        while not metrics(port):
            if process.poll() is not None:
                raise SystemExit(f"progress has ended: see {BUILD / 'progress.log'}")
            time.sleep(1)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 20, "log_level": 0})
        fleet = Fleet(lambda key, line: producer.produce(TOPIC, line, key=key))
        began = time.monotonic()
        until_s = load.minutes * 60
        done = threading.Event()

        def look() -> None:
            look_at = 0.0
            while not done.wait(0.5):
                found = metrics(port)
                count = found.get((PREFIX + "live_overlaps_total", "violation"), 0)
                while len(told) < min(count, len(planted)):
                    told.append(time.time() - planted[len(told)].at_us / 1e6)
                if time.monotonic() >= look_at and found:
                    look_at = time.monotonic() + LOOK_S
                    samples.append(sample(found, began, fleet.events, process.pid))
                    print(samples[-1], told, file=sys.stderr, flush=True)

        looking = threading.Thread(target=look, daemon=True)
        looking.start()
        alive_at = 0.0
        plant_at = [until_s * (one + 1) / (load.violations + 1) for one in range(load.violations)]
        while (now := time.monotonic() - began) < until_s and process.poll() is None:
            while fleet.events < load.rate * now:
                fleet.rebalance()
                producer.poll(0)
            if now >= alive_at:
                alive_at = now + ALIVE_S
                fleet.alive()
            if plant_at and now >= plant_at[0]:
                plant_at.pop(0)
                planted.append(fleet.violate())
            time.sleep(TICK_S)
        producer.flush(30)
        done.set()
        looking.join()
        ended_early = process.poll() is not None
        process.send_signal(signal.SIGTERM)
        code = process.wait(timeout=600)
    if ended_early:
        raise SystemExit(f"progress has ended: see {BUILD / 'progress.log'}")
    return {
        **load._asdict(),
        "events": fleet.events,
        "options": " ".join(options),
        "exit_code": code,
        "planted": len(planted),
        "told_s": [round(one, 1) for one in told],
        "load": round(os.getloadavg()[2], 1),
        "samples": [one._asdict() for one in samples],
    }


def table(result: dict[str, Any], settled_s: float) -> str:
    """Format the figures. State has stopped growing after ``settled_s``."""
    samples = [Sample(**one) for one in result["samples"]]
    step = max(1, len(samples) // ROWS)
    told = sorted(result["told_s"])
    after = f"after {told[0]:g} to {told[-1]:g} s, median {statistics.median(told):g} s" if told else "never"
    head = (
        f"{result['minutes']:g} minutes at {result['rate']:,} events a second ({result['events']:,} in all), "
        f"`{result['options']}`, load {result['load']} on {os.cpu_count()} cores; exit code {result['exit_code']}. Of "
        f"{result['planted']} planted violations {len(told)} were told, {after}."
    )
    lines = [head, "", *_of_samples(samples[step - 1 :: step])]
    settled = [one for one in samples if one.seconds >= settled_s]
    if len(settled) > 1:
        lines += ["", f"From {settled_s:g} s on, the median of each half:", "", *_of_halves(settled)]
    return "\n".join(lines)


def _of_samples(samples: list[Sample]) -> Iterator[str]:
    yield f"| {' | '.join(COLUMNS.values())} |"
    yield "| ---: " * len(COLUMNS) + "|"
    for one in samples:
        yield f"| {' | '.join(f'{getattr(one, name):,.0f}' for name in COLUMNS)} |"


def _of_halves(samples: list[Sample]) -> Iterator[str]:
    middle = len(samples) // 2
    yield "| | first half | second half | lowest | highest |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for name, text in COLUMNS.items():
        if name in CLIMBS:
            continue
        values = [getattr(one, name) for one in samples]
        shown = (
            *(statistics.median(half) for half in (values[:middle], values[middle:])),
            min(values),
            max(values),
        )
        yield f"| {text} | {' | '.join(f'{value:,.0f}' for value in shown)} |"


COLUMNS = {
    "seconds": "after, s",
    "events": "events",
    "behind": "records behind",
    "audit_lag_s": "audit behind, s",
    "tables_lag_s": "tables behind, s",
    "state_rows": "rows of state",
    "state_mib": "state stores, MiB",
    "waiting": "events that wait",
    "memory_mib": "memory, MiB",
    "late": "late",
}
CLIMBS = {"seconds", "events"}


def main() -> None:
    """Run it, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stream", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=int, default=2_000, help="events a second")
    parser.add_argument("--violations", type=int, default=6, help="how many are planted")
    parser.add_argument("--port", type=int, default=19_399, help="of the metrics, on loopback")
    parser.add_argument("--lateness-s", type=int, default=300, help="state is flat after twice as long")
    parser.add_argument("--follow-s", default="30")
    chosen = parser.parse_args()
    options = ["--follow-s", chosen.follow_s, "--lateness", f"{chosen.lateness_s} seconds"]
    load = Load(chosen.minutes, chosen.rate, chosen.violations)
    result = measure(load, options, chosen.port)
    (BUILD / "result.json").write_text(json.dumps(result, indent=1))
    found = table(result, 2 * chosen.lateness_s + 60)
    head, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    _, tail = rest.split(END)
    PAGE.write_text(f"{head}{BEGIN}{found}\n{END}{tail}", encoding="utf-8")
    print(found)


if __name__ == "__main__":
    main()
