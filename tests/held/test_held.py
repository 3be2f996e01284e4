"""A minute of a group that is held at half of its members (`make held MINUTES=60` is the long form)."""

import pytest
from support import ROOT, find_broker
from support.clients import CONFLUENT

from tests.held import check, scene
from tests.skips import Need, without


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("assignor", [CONFLUENT.assignors[0], CONFLUENT.assignors[-1]])
def test_the_quota_holds_while_members_come_and_go_and_the_coordinator_moves(assignor):
    folder = ROOT / "build" / "held" / f"test-{assignor}"
    try:
        scene.run(folder, seed=7, seconds=60, assignor=assignor)
    except find_broker.NoBrokerError as reason:
        without(Need.KAFKA, reason)
    violations, report = check.judged(folder)
    assert violations == [], report
