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
