"""Three states before two replicas (`make truth SEED=1` is the long form)."""

import pytest
from support import ROOT, find_broker

from tests.skips import Need, program, without
from tests.truth.__main__ import run


@pytest.mark.kafka
@pytest.mark.timeout(600)
def test_rules_and_panels_are_what_kafkas_tools_say_and_planted_rules_are_found():
    program("prometheus", "prometheus")
    try:
        seen = run(ROOT / "build" / "truth" / "test", seed=7, states=3, replicas=[2])
    except find_broker.NoBrokerError as reason:
        without(Need.KAFKA, reason)
    assert [one["wrong"] for one in seen["states"]] == [[], [], []]
    # In these states no group is on its way: those two need one with members of both kinds that come through here.
    assert {what for what, where in seen["planted"].items() if where is None} <= {
        "a protocol too many: all of a group that moves are migrated",
        "a type for a protocol: classic members of groups of the new type are migrated",
    }
