"""`epochgate exporter` at a real broker: the same series as kafka_exporter's, for groups that moved too."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import lag_groups
from support.exporters import (
    Exporter,
    Series,
    of_group,
    running_kafka_exporter,
    running_ours,
    wait_for,
)
from support.lag_groups import OFFSETS, PARTITIONS, Groups
from support.prometheus import running_prometheus

from tests.skips import not_here, program
from tools.exporters import built

pytestmark = pytest.mark.kafka

KAFKA_EXPORTER = "kafka_consumergroup_"
BURROW = "burrow_kafka_consumer_"


def series(group: str, topic: str, *, members: int) -> Series:
    """What kafka_exporter has of a group with OFFSETS, when each partition has ten records."""
    found: Series = {}

    def add(name: str, value: int, **labels: object) -> None:
        texts = {"consumergroup": group} | {key: str(one) for key, one in labels.items()}
        found[f"{KAFKA_EXPORTER}{name}", frozenset(texts.items())] = value

    for partition in range(PARTITIONS):
        offset = OFFSETS.get(partition)
        add("current_offset", -1 if offset is None else offset, topic=topic, partition=partition)
        add("lag", -1 if offset is None else 10 - offset, topic=topic, partition=partition)
    add("current_offset_sum", 3 + 10 - 1 - 1, topic=topic)
    add("lag_sum", 7 + 0, topic=topic)
    add("members", members)
    return found


@pytest.fixture(scope="module")
def groups(kafka, entries) -> Iterator[Groups]:
    with lag_groups.groups(kafka, entries) as found:
        yield found


@pytest.fixture(scope="module")
def ours(kafka, groups, empty_folder) -> Iterator[Exporter]:
    settings = {
        "groups": groups.pattern,
        "names": ["kafka_exporter", "burrow"],
        "cluster": "main",
        "every_s": 5,
    }
    with running_ours(kafka.bootstrap, empty_folder("exporter"), settings) as exporter:
        for group in (groups.classic, groups.moved, groups.empty):
            wait_for(exporter, f"{KAFKA_EXPORTER}members", group=group)
        yield exporter


def test_each_kind_of_group_has_the_series_of_kafka_exporter(ours, groups):
    found = ours.series(KAFKA_EXPORTER)
    assert of_group(found, groups.classic) == series(groups.classic, groups.topic, members=2)
    assert of_group(found, groups.moved) == series(groups.moved, groups.topic, members=2)
    assert of_group(found, groups.empty) == series(groups.empty, groups.topic, members=0)


def test_burrows_names_have_partitions_with_commits_only(ours, groups):
    found = of_group(ours.series(BURROW), groups.moved)
    labels = {("cluster", "main"), ("consumer_group", groups.moved)}
    expected: Series = {(f"{BURROW}lag_total", frozenset(labels)): 7}
    for partition, offset in OFFSETS.items():
        at = frozenset({*labels, ("topic", groups.topic), ("partition", str(partition))})
        expected[f"{BURROW}current_offset", at] = offset
        expected[f"{BURROW}partition_lag", at] = 10 - offset
    assert found == expected


def test_the_readings_are_no_older_than_their_interval(ours, groups):
    ages = ours.series("epochgate_exporter_reading_age_seconds")
    assert {dict(labels)["consumergroup"] for _, labels in ages} == {
        groups.classic,
        groups.moved,
        groups.empty,
    }
    assert all(age < 5 + 5 for age in ages.values())
    assert set(ours.series("epochgate_exporter_left_out_groups").values()) == {0}
    assert set(ours.series("epochgate_exporter_groups_listed_completely").values()) == {1}


def test_prometheus_scrapes_it(ours, groups, empty_folder):
    binary = program("prometheus", "prometheus")
    folder = empty_folder("exporter-prometheus")
    rules = folder / "rules.yml"
    rules.write_text("groups: []\n")
    with running_prometheus(binary, [ours.target], rules, folder) as prometheus:
        lag = f'kafka_consumergroup_lag_sum{{consumergroup="{groups.moved}"}}'
        assert prometheus.value(f"sum({lag})") == 7
        assert prometheus.value(f'kafka_consumergroup_members{{consumergroup="{groups.moved}"}}') == 2
        assert prometheus.value(f'burrow_kafka_consumer_lag_total{{consumer_group="{groups.moved}"}}') == 7


@contextlib.contextmanager
def kafka_exporter(bootstrap: str, groups: Groups, folder: Path) -> Iterator[Exporter]:
    program = built.program("kafka_exporter")
    if program is None:
        not_here("kafka_exporter is not built: python -m tools.exporters.built")
    topics, ids = f"^{groups.topic}$", f"^({groups.pattern})$"
    with running_kafka_exporter(program, bootstrap, folder, topics=topics, groups=ids) as exporter:
        wait_for(exporter, KAFKA_EXPORTER, group=groups.classic)
        yield exporter


def test_kafka_exporter_itself_says_the_same_of_groups_that_it_knows(ours, groups, kafka, empty_folder):
    with kafka_exporter(kafka.bootstrap, groups, empty_folder("kafka-exporter-direct")) as theirs:
        found, own = theirs.series(KAFKA_EXPORTER), ours.series(KAFKA_EXPORTER)
    for group in (groups.classic, groups.empty):
        assert of_group(found, group) == of_group(own, group)


def test_kafka_exporter_at_the_broker_sees_no_member_of_a_moved_group(ours, groups, kafka, empty_folder):
    with kafka_exporter(kafka.bootstrap, groups, empty_folder("kafka-exporter-moved")) as theirs:
        found = of_group(theirs.series(KAFKA_EXPORTER), groups.moved)
    own = of_group(ours.series(KAFKA_EXPORTER), groups.moved)
    members = (f"{KAFKA_EXPORTER}members", frozenset({("consumergroup", groups.moved)}))
    assert found.pop(members) == 0
    assert own.pop(members) == 2
    assert found == own


def test_kafka_exporter_through_the_proxy_sees_the_members_too(ours, groups, empty_folder):
    with kafka_exporter(groups.through_proxy, groups, empty_folder("kafka-exporter-proxy")) as theirs:
        found, own = theirs.series(KAFKA_EXPORTER), ours.series(KAFKA_EXPORTER)
    for group in (groups.classic, groups.empty, groups.moved):
        assert of_group(found, group) == of_group(own, group)
