"""What the application of a Java share consumer is told behind the proxy, which carries no share groups."""

import subprocess

import pytest
from support import find_broker

from proxy.wire import share_groups
from tools.java_client import compiled
from tools.kafka import jars

pytestmark = pytest.mark.kafka
TIMEOUT_S = 60.0


def test_the_application_of_a_share_consumer_reads_that_the_proxy_carries_no_share_groups(
    entries, kafka, group
):
    if kafka.version < "4.1":
        pytest.skip(f"Kafka {kafka.version} has no ShareGroupHeartbeat v1")
    try:
        command = compiled.share_consumer(
            find_broker.wanted_version(), entries["translate"].bootstrap, group, kafka.new_topic(partitions=1)
        )
    except jars.KafkaUnavailableError as reason:
        pytest.skip(str(reason))
    told = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    assert told.stdout.splitlines()[-1] == share_groups.MESSAGE
