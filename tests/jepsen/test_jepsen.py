"""Runs the Jepsen-style test with two minutes of faults, without and with a member log (`make jepsen` runs longer)."""

import os

import pytest
from support import ROOT, find_broker

from tests.jepsen import arena, check
from tests.jepsen.history import History
from tests.jepsen.schedule import FLEET_WEIGHTS, WEIGHTS
from tests.pipeline.checker import Check
from tests.pipeline.in_memory import found
from tests.pipeline.real_journal import SKEW_US, of_run
from tests.skips import Need, without

MINUTES = float(os.environ.get("EPOCHGATE_JEPSEN_MINUTES", "2"))
SEED = int(os.environ.get("EPOCHGATE_JEPSEN_SEED", "3"))


@pytest.mark.kafka
@pytest.mark.soak
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize(
    "fleet", [pytest.param(False, id="apart"), pytest.param(True, id="fleet", marks=pytest.mark.long)]
)
def test_two_minutes_of_faults(fleet):
    folder = ROOT / "build" / "jepsen" / ("test-fleet" if fleet else "test")
    try:
        arena.run(folder, seed=SEED, seconds=60 * MINUTES, fleet=fleet)
    except find_broker.NoBrokerError as reason:
        without(Need.KAFKA, reason)
    history = History.read(folder)
    assert {fault.kind for fault in history.faults} >= set(FLEET_WEIGHTS if fleet else WEIGHTS), (
        "not everything was broken"
    )
    verdict = check.judge(history)
    if verdict.violations:
        pytest.fail("\n".join(check.report(history, verdict)), pytrace=False)
    events = of_run(folder)
    plain = Check(events, SKEW_US)
    assert found(events, SKEW_US) == ({one[:7] for one in plain.overlaps}, plain.gaps), "the journals' audit"
