"""What the report says was gained, of a run on a real broker with known joins, deploys and kills before and after."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.broker import Kafka
from support.clients import CONFLUENT
from support.consumers import ConsumerProcess, Consumers
from support.entry import Proxy, running_proxy
from support.waiting import eventually

from pipeline.progress import job
from pipeline.progress.streams import Options
from pipeline.report import facts
from pipeline.rules.gains import AFTER, BEFORE, KINDS, Gains
from pipeline.rules.lines import ENDS, LAST_US, STATE_CHANGED, Line, key_of, parse_line

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

APART_S = 5.0
ROUNDS = 3
STAYING, PARTITIONS = 2, 6
GROUP = "orders"


class Run:
    """A group behind a proxy that writes a journal. Its consumers share one client id, as with a library's default."""

    def __init__(self, kafka: Kafka, proxy: Proxy, consumers: Consumers) -> None:
        self._proxy, self._consumers = proxy, consumers
        self._topic = kafka.new_topic(partitions=PARTITIONS)
        self._began = time.time()
        self.staying = [self._started() for _ in range(STAYING)]
        self._settle(self.staying)

    def _started(self) -> ConsumerProcess:
        return self._consumers.start(
            CONFLUENT, self._proxy.bootstrap, GROUP, self._topic, "range", client_id="rdkafka"
        )

    def join_deploy_and_kill(self) -> None:
        """A consumer joins, is replaced by a new version, and dies; each by itself."""
        one = self._started()
        self._settle([*self.staying, one])
        one.close()
        one = self._started()
        self._settle([*self.staying, one])
        one.kill()
        self._settle(self.staying)

    def move(self) -> None:
        """Translate the group, while nothing else happens."""
        (self._proxy.folder / "policy.yaml").write_text("default: translate\n")
        eventually(self._is_moved, what="the group has moved", timeout_s=60)
        self._settle(self.staying)

    def _is_moved(self) -> bool:
        adopted = {one["member"] for one in self._journal() if one["kind"] == "adopted"}
        return len(adopted) == STAYING

    def _settle(self, among: list[ConsumerProcess]) -> None:
        """Until these have all partitions, and the last change since the step began is longer ago than rebalances are.

        The journal has it a moment later than the clients.
        """
        self._consumers.wait_until(
            lambda: (
                sum(len(one.owned()) for one in among) == PARTITIONS and all(one.owned() for one in among)
            ),
            f"{len(among)} consumers share the partitions",
        )
        eventually(
            lambda: self._began < self._changed_at() < time.time() - APART_S - 1,
            what="the group is quiet",
            timeout_s=60,
        )
        self._began = time.time()

    def _changed_at(self) -> float:
        kinds = {STATE_CHANGED, "adopted", *ENDS}
        times = [one["time_us"] / 1e6 for one in self._journal() if one["kind"] in kinds]
        return max(times, default=0.0)

    def _journal(self) -> Iterator[dict[str, object]]:
        for file in (self._proxy.folder / "journal").glob("*.jsonl"):
            for line in file.read_bytes().splitlines(keepends=True):
                if line.endswith(b"\n"):  # the last one may be under way
                    yield json.loads(line)


def gains_of(journal: Path) -> Gains:
    """What the live verification counts of the same journal."""
    lines = [
        event
        for file in journal.glob("*.jsonl")
        for line in file.read_bytes().splitlines()
        if isinstance(event := parse_line(line), Line) and event.member
    ]
    gains = Gains(ended=(), apart_s=APART_S)
    for event in sorted(lines, key=key_of):
        gains.take(event)
    gains.count(LAST_US)
    return gains


def test_the_report_counts_what_happened_before_and_after_the_move(
    kafka: Kafka, spark: SparkSession, tmp_path: Path
) -> None:
    consumers = Consumers(tmp_path)
    with running_proxy(
        kafka.bootstrap, tmp_path / "proxy", policy="default: observe\n", journal={"path": "journal"}
    ) as proxy:
        try:
            run = Run(kafka, proxy, consumers)
            for _ in range(ROUNDS):
                run.join_deploy_and_kill()
            run.move()
            for _ in range(ROUNDS):
                run.join_deploy_and_kill()
            proxy.stop()
        finally:
            consumers.end()
    lines = job.lines_of_files(spark, proxy.folder / "journal")
    job.run(spark, lines, tmp_path / "out", Options(window="1 second"))

    found = facts.progress(spark, tmp_path / "out", apart_s=APART_S)

    kinds = {(row["kind"], row["phase"]): row for row in found.move.gained.kinds}
    first_joins = 1
    assert {kind: row["count"] for kind, row in kinds.items() if kind[1] in (BEFORE, AFTER)} == {
        ("join", BEFORE): ROUNDS + first_joins,
        ("deploy", BEFORE): ROUNDS,
        ("kill", BEFORE): ROUNDS,
        ("join", AFTER): ROUNDS,
        ("deploy", AFTER): ROUNDS,
        ("kill", AFTER): ROUNDS,
    }
    assert kinds["join", BEFORE]["stopped"] == STAYING
    assert all(row["stopped"] <= STAYING for row in kinds.values()), "a client that joins stops nothing"
    live = gains_of(proxy.folder / "journal").compared()
    assert [one.kind for one in live] == [kind for kind in KINDS if (kind, AFTER) in kinds]
    for one in live:
        for phase, side in ((BEFORE, one.before), (AFTER, one.after)):
            row = kinds[one.kind, phase]
            assert (side.count, side.median_us / 1000) == (row["count"], row["stood_ms"]), (one.kind, phase)
            assert side.longest_us / 1000 == row["longest_ms"]
    assert Counter(one.verdict for one in live) == Counter(found.move.gained.compared)
    assert sum(found.move.gained.compared.values()) == 3
    assert found.move.gained.compared["too_few"] == 0
    (worst,) = found.worst
    assert worst["clients"] == STAYING + 1, "members that came back under other ids count again"
