"""Who is killed behind several processes leaves its partitions free until the broker's session ends: stock settings.

Behind replicas that are one fleet it is the client's own session.

Tests with a shortened broker session would hide it. When this changes, README.md, docs/how-to/operations.md and the
chart's notes say something that is no more true.
"""

import pytest
from support.broker import Kafka

from benchmarks.failover import (
    BROKER_SESSION_S,
    CLIENT_SESSION_S,
    DIRECT,
    FLEET,
    NATIVE,
    NATIVE_THROUGH,
    ONE_PROCESS,
    TWO_REPLICAS,
    TWO_WORKERS,
    measure,
    table,
)
from tools.kafka.settings import GROUP_DEFAULTS

SLACK_S = 6.0
"""For the survivor's next heartbeat (3 s apart) and a machine that does other things too."""


@pytest.mark.kafka
def test_how_long_a_killed_clients_partitions_have_no_owner(own_kafka, folder):
    cluster = own_kafka(overrides=GROUP_DEFAULTS)
    kafka = Kafka(cluster.bootstrap, source="maven", version=cluster.version)
    rows = measure(kafka, folder)
    free = {row.entry: row.free_s for row in rows}
    # A session begins with the last heartbeat, which was up to one interval before the kill.
    for entry in (DIRECT, ONE_PROCESS, FLEET):
        assert CLIENT_SESSION_S - SLACK_S < free[entry] < CLIENT_SESSION_S + SLACK_S, table(rows)
    for entry in (TWO_WORKERS, TWO_REPLICAS, NATIVE, NATIVE_THROUGH):
        assert free[entry] > CLIENT_SESSION_S + SLACK_S, table(rows)
        assert free[entry] < BROKER_SESSION_S + SLACK_S, table(rows)
