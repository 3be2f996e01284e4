"""The journal from files and from its topic: what a real proxy writes to both is the same, and is counted once."""

import contextlib
import json
import signal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession
from support.broker import Kafka
from support.clients import CONFLUENT
from support.consumers import Consumers
from support.entry import Proxy
from typer.testing import CliRunner

from pipeline.audit import job as audit
from pipeline.audit.output import GAPS, INTERVALS, OVERLAPS, PROCESSES
from pipeline.errors import PipelineError
from pipeline.journal import events
from pipeline.progress import job as progress
from pipeline.progress import streams
from pipeline.progress.output import PAUSES, TRANSITIONS
from pipeline.quarantine import QUARANTINE
from proxy.cli import command_line
from tests.pipeline.following import assert_equals_the_batch, running, until
from tools.spark_connector.jars import ensure_connector

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

GROUP = "moves"
PARTITIONS = 6
TRANSLATE = f"default: observe\nrules:\n  - {{group: {GROUP}, mode: translate}}\n"


class Journal:
    """What a real proxy wrote to files and to a topic of a group that moved."""

    def __init__(self, folder: Path, topic: str, bootstrap: str) -> None:
        self.folder = folder
        self.topic = topic
        self.bootstrap = bootstrap

    def records(self) -> list[str]:
        """The topic's records, read by a plain consumer."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "-", "log_level": 0})
        found = []
        for number in range(2):
            at = TopicPartition(self.topic, number, 0)
            _, end = consumer.get_watermark_offsets(at, timeout=30)
            consumer.assign([at])
            while end:
                message = consumer.poll(30)
                assert message is not None
                assert not message.error(), message.error()
                found.append(message.value().decode())
                if message.offset() == end - 1:
                    break
        consumer.close()
        return found


@pytest.fixture(scope="module")
def journal(kafka: Kafka, consumers: Consumers, tmp_path_factory: pytest.TempPathFactory) -> Journal:
    folder = tmp_path_factory.mktemp("journal")
    topic, written = kafka.new_topic(partitions=PARTITIONS), kafka.new_topic("journal", partitions=2)
    with contextlib.ExitStack() as stack:
        proxy = Proxy(kafka.bootstrap, folder, policy="default: observe\n")
        config = json.loads((folder / "epochgate.yaml").read_text())
        config |= {"journal": {"path": "journal", "topic": written}}
        (folder / "epochgate.yaml").write_text(json.dumps(config))
        stack.callback(proxy.stop)
        proxy.start()
        started = [
            consumers.start(CONFLUENT, proxy.bootstrap, GROUP, topic, "range", name=f"moving-{number}")
            for number in range(3)
        ]

        def shared() -> bool:
            owned = [one.owned() for one in started]
            return all(owned) and sum(map(len, owned)) == PARTITIONS == len(frozenset().union(*owned))

        def translated() -> bool:
            group = kafka.describe(GROUP)
            return group is not None and [one.member_type for one in group.members] == ["consumer"] * 3

        consumers.wait_until(shared, "the classic group shares the partitions")
        for one in started:
            one.commit({topic: {number: 7 for _, number in one.owned()}})
        (folder / "policy.yaml").write_text(TRANSLATE)
        consumers.wait_until(lambda: translated() and shared(), "the group has moved")
        for one in started:
            one.commit({topic: {number: 9 for _, number in one.owned()}})
        started[0].commit({topic: {min(started[0].owned())[1]: 5}})
        for one in started:
            one.close()
    return Journal(folder / "journal", written, kafka.bootstrap)


def from_topic(spark: SparkSession, journal: Journal) -> Any:
    return events.from_topic(spark, journal.bootstrap, journal.topic, {})


def rows(spark: SparkSession, table: Any, out: Path) -> list[str]:
    """Rows as text, without what tells the topic's boot from that of the files."""
    return sorted(str(row).replace("-topic", "") for row in table.read(spark, str(out)).collect())


def test_the_audit_of_the_topic_is_that_of_the_files(
    journal: Journal, spark: SparkSession, tmp_path: Path
) -> None:
    of_files = audit.run(spark, events.from_files(spark, journal.folder), tmp_path / "files")
    of_topic = audit.run(spark, from_topic(spark, journal), tmp_path / "topic")

    assert of_files == of_topic
    assert of_files.events > 30
    assert (of_files.violations, of_files.duplicates, of_files.lost) == (0, 0, 0)
    for table in (INTERVALS, OVERLAPS, GAPS, PROCESSES):
        assert rows(spark, table, tmp_path / "files") == rows(spark, table, tmp_path / "topic"), table.name
    boots = {at: PROCESSES.read(spark, str(tmp_path / at)).collect()[0]["boot"] for at in ("files", "topic")}
    assert boots["topic"] == boots["files"] + "-topic"


@pytest.mark.parametrize("source", ["files", "topic"])
def test_a_certificate_tells_of_commits_before_and_after_the_move(source: str, journal: Journal) -> None:
    """The proxy's own events: what it saw committed while the group was classic, and of the translated members."""
    of_topic = ("--from", journal.bootstrap, "--topic", journal.topic)
    place = ("--journal", str(journal.folder)) if source == "files" else of_topic
    answer = CliRunner().invoke(command_line(), ["verify", *place, "--group", GROUP, "-o", "json"])
    (found,) = json.loads(answer.stdout)["certificates"]
    assert (found["verdict"], found["why"], answer.exit_code) == ("proven", [], 0)
    assert (found["commits"]["recorded"], found["commits"]["refused"]) == (True, {})
    (back,) = found["commits"]["examples"]
    assert (back["offset"], back["before"]) == (5, 9)
    assert {"classic", "translated"} <= found["pauses"].keys()
    committed = [one for one in map(json.loads, journal.records()) if one["kind"] == "committed"]
    moved = [one for one in committed if one["protocol"] == "translated"]
    assert {one["protocol"] for one in committed} == {"classic", "translated"}
    assert {before for one in moved for listed in one["commits"] for before in listed["before"]} <= {7, 9}


def test_progress_of_the_topic_is_that_of_the_files(
    journal: Journal, spark: SparkSession, tmp_path: Path
) -> None:
    progress.run(spark, progress.lines_of_files(spark, journal.folder), tmp_path / "files")
    lines = progress.lines_of_topic(spark, journal.bootstrap, journal.topic, {})
    progress.run(spark, lines, tmp_path / "topic")
    again = progress.run(spark, lines, tmp_path / "topic")  # nothing new: nothing changes

    assert again.pauses > 3
    for table in (TRANSITIONS, PAUSES):
        assert rows(spark, table, tmp_path / "files") == rows(spark, table, tmp_path / "topic"), table.name
    windows = {
        at: sorted(map(str, streams.latest(progress.windows_written(spark, str(tmp_path / at))).collect()))
        for at in ("files", "topic")
    }
    assert windows["files"] == windows["topic"]


@pytest.mark.long
def test_a_batch_reads_no_more_records_of_the_topic_than_it_may_and_neither_does_the_first(
    journal: Journal, spark: SparkSession, tmp_path: Path
) -> None:
    records = len(journal.records())
    most = records // 3
    lines = progress.lines_of_topic(spark, journal.bootstrap, journal.topic, {}, records_at_once=most)
    running = streams.start(lines, str(tmp_path), progress.DEFAULTS, follow_s=None)
    for query in running:
        query.awaitTermination()
    (quarantine,) = (
        query for query in running if query.name == QUARANTINE.name
    )  # has no batch without records
    read = [one["numInputRows"] for one in quarantine.recentProgress]
    assert len(read) >= 3
    assert sum(read) == records
    assert max(read) <= most + 1, "each partition has at least one"


def test_following_the_topic_ends_by_sigterm_and_the_next_run_goes_on(
    journal: Journal, kafka: Kafka, spark: SparkSession, tmp_path: Path
) -> None:
    """As a service manager ends it, and maybe within a batch."""
    topic, out = kafka.new_topic("journal", partitions=1), tmp_path / "out"
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    written = journal.records()
    shares = [written[turn::3] for turn in range(3)]

    def write(share: list[str]) -> None:
        for record in share:
            producer.produce(topic, record)
        assert producer.flush(30) == 0

    write(shares[0])
    source = ("--from", kafka.bootstrap, "--topic", topic)
    jars = ",".join(map(str, ensure_connector()))
    with running(out, *source, "--follow-s", 0.2, spark_jars=jars) as following:
        until(following, lambda: taken_up(out) == len(shares[0]))
        write(shares[1])
        following.send_signal(signal.SIGTERM)
        assert following.wait() == 0, (tmp_path / "progress.log").read_text()[-3000:]
    assert PAUSES.read(spark, str(out)).count() > 0
    assert len(shares[0]) <= taken_up(out) <= len(shares[0]) + len(shares[1])

    write(shares[2])
    progress.run(spark, progress.lines_of_topic(spark, kafka.bootstrap, topic, {}), out)

    assert taken_up(out) == len(written)
    assert_equals_the_batch(spark, events.from_topic(spark, kafka.bootstrap, topic, {}), out)


def taken_up(out: Path) -> int:
    """How many records the batches of transitions that have ended have taken up."""
    checkpoint = out / "_checkpoints" / "transitions"
    ended = [int(file.name) for file in (checkpoint / "commits").glob("[0-9]*")]
    if not ended:
        return 0
    *_, offsets = (checkpoint / "offsets" / str(max(ended))).read_text().splitlines()
    ((by_partition),) = json.loads(offsets).values()
    return by_partition["0"]


def test_files_and_topic_together_are_refused_not_counted_twice(
    journal: Journal, spark: SparkSession, tmp_path: Path
) -> None:
    """Somebody copied the topic beside the files."""
    both = tmp_path / "both"
    both.mkdir()
    for file in journal.folder.glob("*.jsonl"):
        (both / file.name).write_bytes(file.read_bytes())
    (both / "topic.jsonl").write_text("".join(f"{line}\n" for line in journal.records()), encoding="utf-8")

    with pytest.raises(PipelineError, match="both from its files and from its topic"):
        audit.run(spark, events.from_files(spark, both), tmp_path / "audit")
    with pytest.raises(PipelineError, match="both from its files and from its topic"):
        progress.run(spark, progress.lines_of_files(spark, both), tmp_path / "progress")


def test_records_that_are_no_events_are_set_aside_with_their_place(
    journal: Journal, kafka: Kafka, spark: SparkSession, tmp_path: Path
) -> None:
    topic = kafka.new_topic("journal", partitions=1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    good = journal.records()[0]
    future = json.dumps({**json.loads(good), "v": 2})
    values = (good, None, b"\xff\xfe no text", "not JSON", future)
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(30) == 0
    reasons = {
        (0, 1, "no content", None),
        (0, 2, "not JSON", values[2]),
        (0, 3, "not JSON", b"not JSON"),
        (0, 4, "schema version 2 is not known", future.encode()),
    }

    summary = audit.run(spark, events.from_topic(spark, kafka.bootstrap, topic, {}), tmp_path / "audit")
    progress.run(spark, progress.lines_of_topic(spark, kafka.bootstrap, topic, {}), tmp_path / "progress")

    assert (summary.events, sum(summary.quarantined.values())) == (1, 4)
    for out in ("audit", "progress"):
        found = QUARANTINE.read(spark, str(tmp_path / out)).collect()
        names = ("partition", "offset", "reason", "content")
        assert {
            tuple(bytes(row[name]) if isinstance(row[name], bytearray) else row[name] for name in names)
            for row in found
        } == reasons, out
        assert {row["source"] for row in found} == {topic}
