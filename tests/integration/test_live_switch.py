"""A group goes from observe to translate and back while it lives and works, and nobody but the proxy knows."""

from pathlib import Path

import pytest
from support.clients import AIOKAFKA, CONFLUENT, COOPERATIVE, JAVA, KAFKA_PYTHON
from support.entry import planned
from support.live_group import MODE, REPEATED_AT_A_RESTART, live_group
from support.other_clients import FRANZ_GO, KAFKA_GO, KAFKAJS, SARAMA
from support.short_form import long

IN_PLACE = [
    (CONFLUENT, "range"),
    (JAVA, COOPERATIVE),
    (AIOKAFKA, "roundrobin"),
    long(CONFLUENT, "roundrobin"),
    long(JAVA, "range"),
    long(KAFKA_PYTHON, "range"),
    long(KAFKAJS, "RoundRobinAssigner"),
    long(FRANZ_GO, COOPERATIVE),
]
"""Clients whose groups brokers convert with their members in them."""

ALL_AT_ONCE = [
    (CONFLUENT, COOPERATIVE),  # its assignor keeps user data
    (KAFKA_GO, "rack-affinity"),
    long(KAFKA_PYTHON, "sticky"),  # keeps user data too
    long(SARAMA, "sticky"),
]
"""Clients whose groups brokers convert only when they are empty."""


@pytest.mark.kafka
@pytest.mark.scenario("moved in place and back while it works")
@pytest.mark.parametrize(("client", "assignor"), IN_PLACE, ids=str)
def test_a_live_group_is_moved_in_place_and_back(client, assignor, kafka, consumers, folder: Path, group):
    with live_group(kafka, consumers, folder, group) as live:
        live.form(client, assignor)
        translating = folder / "translating.yaml"
        translating.write_text(MODE.format(mode="translate"))
        assert f"{group}: observe -> translate, 3 members, by rule 1" in planned(translating, live.proxy)
        for _ in range(2):
            before = live.until_classic()
            marks = live.move("translate")
            assert live.until_consumer_group() == before
            assert live.callbacks(marks) == []
            assert "1 group unchanged" in planned(translating, live.proxy)
            marks = live.move("observe")
            assert live.callbacks(marks, "lost") == []
    repeated = len(live.account().duplicates)
    assert repeated <= 2 * REPEATED_AT_A_RESTART


@pytest.mark.kafka
@pytest.mark.scenario("moved all at once and back while it works")
@pytest.mark.parametrize(("client", "assignor"), ALL_AT_ONCE, ids=str)
def test_a_live_group_is_moved_all_at_once_and_back(client, assignor, kafka, consumers, folder: Path, group):
    with live_group(kafka, consumers, folder, group) as live:
        live.form(client, assignor)
        for mode in ("translate", "observe", "translate"):
            live.move(mode)
    live.account()


@pytest.mark.kafka
@pytest.mark.scenario("moved all at once, by two proxies that know nothing of each other")
@pytest.mark.parametrize(
    ("client", "assignor"), [(CONFLUENT, COOPERATIVE), long(KAFKA_GO, "rack-affinity")], ids=str
)
def test_a_group_that_is_moved_all_at_once_is_moved_by_two_proxies(
    client, assignor, kafka, consumers, folder: Path, group
):
    """Each tells its own clients; those that have left wait for the others outside the classic group."""
    with live_group(kafka, consumers, folder, group, proxies=2, sole_process=False) as live:
        live.form(client, assignor)
        live.policy("translate")
        live.until_consumer_group(timeout_s=120)
        live.until_shared()
    live.account()
