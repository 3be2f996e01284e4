"""A broker whose Metadata has topics with a null name ends librdkafka with SIGSEGV, and the proxy loads none of it."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.broker import Kafka
from support.clients import CONFLUENT
from support.entry import Proxy
from support.metadata_relay import MetadataRelay
from support.waiting import eventually

pytestmark = pytest.mark.kafka

LOST = """
import sys
from confluent_kafka.admin import AdminClient
AdminClient({"bootstrap.servers": sys.argv[1]}).list_topics(timeout=10)
"""


@pytest.fixture
def relay(kafka: Kafka) -> Iterator[MetadataRelay]:
    host, port = kafka.bootstrap.split(",")[0].split(":")
    with MetadataRelay((host, int(port))) as relay:
        yield relay


def libraries_of(process_id: int) -> set[str]:
    """The shared libraries that a process has loaded."""
    return {
        line.split()[-1]
        for line in Path(f"/proc/{process_id}/maps").read_text().splitlines()
        if ".so" in line
    }


def children_of(process_id: int) -> set[int]:
    found = Path(f"/proc/{process_id}/task").glob("*/children")
    return {int(child) for children in found for child in children.read_text().split()}


def has_librdkafka(process_id: int) -> bool:
    return any("confluent_kafka" in name for name in libraries_of(process_id))


def crashes(proxy: Proxy) -> float:
    text = proxy.metrics()
    return sum(
        float(line.split()[-1])
        for line in text.splitlines()
        if line.startswith("epochgate_kafka_process_crashes_total")
    )


def test_the_proxy_and_its_clients_survive_what_ends_librdkafka(kafka, relay, consumers, folder, group):
    """Its processes crash for as long as the broker answers so, and then everything goes on; nobody rejoins."""
    topic = kafka.new_topic(partitions=4)
    members = f"members-{group}"
    proxy = Proxy(
        kafka.bootstrap,
        folder / "proxy",
        policy="default: translate\n",
        fleet={
            "kafka": {"bootstrap.servers": relay.bootstrap, "topic.metadata.refresh.interval.ms": 500},
            "topic": members,
            "partitions": 4,
            "replication": 1,
            "expires": True,
        },
        journal={"topic": f"journal-{group}"},
        verify={"live": True},
    )
    proxy.start()
    try:
        started = [
            consumers.start(CONFLUENT, proxy.bootstrap, group, topic, "range", name=f"c-{number}")
            for number in range(2)
        ]
        consumers.wait_until(
            lambda: all(len(one.owned()) == 2 for one in started), "all partitions have owners"
        )
        serving = proxy.pid
        eventually(
            lambda: sum(map(has_librdkafka, children_of(serving))) >= 3,
            what="log, journal and proof run",
            timeout_s=30,
        )
        assert not has_librdkafka(serving)
        before = [len(one.callbacks()) for one in started]

        relay.names_topics = False
        lost = subprocess.run([sys.executable, "-c", LOST, relay.bootstrap], check=False, timeout=60)
        assert lost.returncode == -signal.SIGSEGV, "else the broker is not hostile enough for this test"
        eventually(lambda: crashes(proxy) >= 3, what="processes of librdkafka have crashed", timeout_s=60)
        assert proxy.pid == serving
        assert proxy.ready(), "calls of members go on"
        assert [len(one.callbacks()) for one in started] == before, "a client has rejoined"

        relay.names_topics = True
        eventually(
            lambda: "epochgate_fleet_log_away 0.0" in proxy.metrics(), what="the log is ready", timeout_s=90
        )
        assert [len(one.callbacks()) for one in started] == before, "a client has rejoined"
        assert all(len(one.owned()) == 2 for one in started)
        third = consumers.start(CONFLUENT, proxy.bootstrap, group, topic, "range", name="c-3")
        consumers.wait_until(third.owned, "a new client has partitions")
        assert not has_librdkafka(serving)
        assert "it was ended by SIGSEGV" in proxy.log.read_text()
    finally:
        proxy.stop()
