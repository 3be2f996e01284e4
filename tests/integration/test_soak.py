"""Two minutes of the soak (`make soak MINUTES=60` is the long form): memory, descriptors and tasks stay flat."""

import pytest

from benchmarks import soak


@pytest.mark.kafka
@pytest.mark.soak
@pytest.mark.timeout(600)
def test_nothing_grows_under_traffic_churn_and_restarts(own_kafka):
    report = soak.soak(minutes=2)
    assert report["traffic"]["consumed"] > 0
    assert report["traffic"]["came and went"] > 50
    assert report["flat"], report


@pytest.mark.parametrize(("leaked", "flat"), [(0.0, True), (4.0, False)])
def test_a_leak_is_told_from_noise(leaked, flat):
    rests = [
        {"memory_mib": 75.0 + at % 2, "descriptors": 50.0 + 3 * (at % 2) + leaked * at, "tasks": 80.0}
        for at in range(4)
    ]
    report = soak.judged(rests)
    assert report["flat"] is flat
    assert report["rows"]["descriptors"]["flat"] is flat
