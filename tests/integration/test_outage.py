"""A stock broker is away for longer than the session of clients: what follows is what follows straight at it."""

import pytest

from benchmarks.outage import FLEET, KINDS, STRAIGHT, Scene
from tools.kafka.settings import GROUP_DEFAULTS

AWAY_S = 15.0
"""The clients' session timeout is 10 s."""
SESSION_OF_NATIVE_MEMBERS_S = 45.0
KIND_NAMES = ("confluent-kafka", "confluent-kafka-static")


@pytest.fixture(scope="module")
def groups(own_kafka_of_module, empty_folder):
    """{(kind, way): what its group went through}."""
    cluster = own_kafka_of_module(overrides={**GROUP_DEFAULTS, "offsets.topic.replication.factor": "1"})
    kinds = [KINDS[name] for name in KIND_NAMES]
    with Scene(cluster, "cluster", kinds, (STRAIGHT, FLEET), empty_folder("outage")) as scene:
        found = scene.outage(AWAY_S)["groups"]
    return {(group["kind"], group["way"]): group for group in found}


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.parametrize("kind", [str(KINDS[name]) for name in KIND_NAMES])
def test_behind_two_replicas_an_outage_is_what_it_is_straight_at_the_broker(groups, kind):
    straight, fleet = groups[kind, STRAIGHT], groups[kind, FLEET]
    assert fleet["fatal"] <= straight["fatal"], groups
    assert fleet["owners_again_s"] is not None, groups
    assert fleet["owners_again_s"] < SESSION_OF_NATIVE_MEMBERS_S, groups
    assert (fleet["lost"], fleet["two_owners"]) == (straight["lost"], straight["two_owners"]), groups
