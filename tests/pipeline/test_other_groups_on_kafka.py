"""Share and streams groups and those of Kafka Connect behind a real proxy: progress finds what its API shows."""

import json
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support import find_broker
from support.broker import Kafka
from support.clients import CONFLUENT
from support.connect import Worker
from support.consumers import Consumers
from support.entry import Proxy, running_proxy
from support.share import SHARE_CONSUMER
from support.streams import StreamsApplication
from support.waiting import eventually

from pipeline.progress import job
from pipeline.progress.output import OTHER_GROUPS, OTHER_MEMBERS
from tests.skips import Need, not_here, without

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

CONNECTORS = {"orders": 3, "payments": 1}
RUNNING = len(CONNECTORS) + sum(CONNECTORS.values())
WITHIN_S = 120.0
Shown = dict[str, Any]


class Scene:
    """Each kind of group behind a proxy that writes its journal to files."""

    def __init__(self, kafka: Kafka, proxy: Proxy, consumers: Consumers, folder: Path) -> None:
        self.kafka = kafka
        self.proxy = proxy
        self.consumers = consumers
        self.folder = folder
        self.workers: list[Worker] = []

    def shown(self) -> Shown:
        """What /api/groups says."""
        with urllib.request.urlopen(f"{self.proxy.admin}/api/groups", timeout=5) as answer:  # noqa: S310 - our own URL
            return json.loads(answer.read())

    def group(self, group: str) -> Shown:
        """One of its groups; empty before it is there."""
        return next((one for one in self.shown()["groups"] if one["id"] == group), {})

    def start_worker(self) -> Worker:
        name = f"w{len(self.workers) + 1}"
        worker = Worker(self.kafka.version, self.proxy.bootstrap, "connect", self.folder, name)
        self.workers.append(worker)
        return worker

    def start_clients(self) -> None:
        """Members of every protocol, until they have what there is."""
        topic = self.kafka.new_topic(partitions=2)
        entry = self.proxy.bootstrap
        self.consumers.start(CONFLUENT, entry, "classic", topic, "range").wait_for("assigned")
        for name in ("s1", "s2"):
            spec = {
                "bootstrap": entry,
                "group": "share",
                "topic": topic,
                "client_id": name,
                "mode": "implicit",
            }
            self.consumers.start(SHARE_CONSUMER, entry, "share", topic, name=name, only=spec)
        application = StreamsApplication(self.kafka, entry, self.consumers, "streams", "streams")
        application.wait_until_shared(application.start(), application.start())
        first = self.start_worker()
        for name, tasks in CONNECTORS.items():
            first.create(name, tasks)
        self.start_worker()
        self.wait(lambda: self.have("share", 2, 2), "share consumers have both partitions")
        self.wait(lambda: self.have("connect", 2, RUNNING), "two workers share what is to run")

    def have(self, group: str, members: int, at_least: int) -> bool:
        """Whether so many members, all Stable and each with something, have so much."""
        shown = self.group(group)
        parts = [
            sum(len(topic["partitions"]) for topic in member["partitions"] or ())
            for member in shown.get("members", ())
        ]
        return len(parts) == members and all(parts) and sum(parts) >= at_least and shown["state"] == "Stable"

    def lose_a_worker(self) -> None:
        """What it ran waits for it."""
        self.workers[1].kill()
        self.wait(lambda: self.group("connect")["connect"]["rejoins_at"] is not None, "the others wait")

    def wait(self, condition: Any, what: str) -> None:
        eventually(condition, what=what, timeout_s=WITHIN_S, between_s=0.3)

    def journal_until(self, time_s: float) -> Path:
        """End the proxy, and return its journal without what came after this time."""
        self.proxy.stop()
        cut = self.folder / "journal-until"
        cut.mkdir()
        for file in (self.proxy.folder / "journal").glob("[!_]*.jsonl"):
            lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
            kept = [line for line in lines if json.loads(line)["time_us"] <= round(time_s * 1_000_000)]
            (cut / file.name).write_text("".join(kept), encoding="utf-8")
        return cut


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    if find_broker.wanted_version() < "4.2":
        not_here("streams groups are a preview only, switched off")
    (tmp_path / "consumers").mkdir()
    consumers = Consumers(tmp_path / "consumers")
    try:
        with (
            find_broker.own_cluster(f"others-{uuid.uuid4().hex[:8]}") as own,
            running_proxy(own.bootstrap, tmp_path / "proxy", journal={"path": "journal"}) as proxy,
        ):
            made = Scene(
                Kafka(own.bootstrap, source="maven", version=own.version), proxy, consumers, tmp_path
            )
            yield made
            for worker in made.workers:
                worker.kill()
            consumers.end()
    except find_broker.NoBrokerError as reason:
        without(Need.KAFKA, f"no Kafka: {reason}")


def rows(spark: SparkSession, table: Any, out: Path) -> list[Shown]:
    return [row.asDict(recursive=True) for row in table.read(spark, str(out)).collect()]


def parts(listed: list[Shown] | None) -> set[tuple[str, int, str | None]] | None:
    """Topic, number and role of each partition, task or connector."""
    if listed is None:
        return None
    return {(one["topic"], number, one.get("role")) for one in listed for number in one["partitions"]}


def test_progress_finds_what_the_proxy_shows(scene: Scene, spark: SparkSession, tmp_path: Path) -> None:
    scene.start_clients()
    scene.lose_a_worker()
    snapshot = scene.shown()
    journal = scene.journal_until(snapshot["time"])

    summary = job.run(spark, job.lines_of_files(spark, journal), tmp_path / "out")

    assert (summary.groups, summary.other_groups) == (1, {"share": 1, "streams": 1, "connect": 1})
    shown = {group["id"]: group for group in snapshot["groups"]}
    found = {row["group"]: row for row in rows(spark, OTHER_GROUPS, tmp_path / "out")}
    assert found.keys() == shown.keys() - {"classic"}
    for group, row in found.items():
        view = shown[group]
        assert row["protocol"] == view["protocol"] == group
        assert (row["members"], row["rebalances"]) == (len(view["members"]), view["rebalances"]), group
        assert row["updated_us"] == round(max(one["updated_at"] for one in view["members"]) * 1_000_000)
    connect, told = found["connect"], shown["connect"]["connect"]
    assert (connect["members"], connect["ended_members"]) == (told["workers"], 1)
    assert (connect["connectors"], connect["tasks"]) == (told["connectors"], told["tasks"])
    assert connect["leader_url"] == told["leader_url"] != ""
    assert connect["waiting_until_us"] == round(told["rejoins_at"] * 1_000_000)
    assert connect["longest_delay_ms"] > 0
    assert (found["share"]["partitions"], found["streams"]["active_tasks"]) == (2, 6)
    members = {row["member"]: row for row in rows(spark, OTHER_MEMBERS, tmp_path / "out")}
    views = {member["id"]: member for group in found for member in shown[group]["members"]}
    assert members.keys() == views.keys()
    for name, view in views.items():
        row, worker = members[name], view["worker"]
        about = ("protocol", "client_id", "client_host", "software", "state")
        assert {field: row[field] for field in about} == {field: view[field] for field in about}
        assert parts(row["assignment"]) == parts(view["partitions"])
        said = None if worker is None else (worker["url"], worker["config_offset"], worker["is_leader"])
        assert (None if row["url"] is None else (row["url"], row["config_offset"], row["is_leader"])) == said
