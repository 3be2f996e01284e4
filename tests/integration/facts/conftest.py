"""Groups with members made by hand, for the tests of what brokers really do."""

import pytest
from support.raw_new_member import RawNewMember

PARTITIONS = 4


@pytest.fixture
def topic(kafka):
    return kafka.new_topic(partitions=PARTITIONS)


@pytest.fixture
def alone(kafka, group, topic):
    """The only member, with all partitions."""
    with RawNewMember(kafka, group, topic) as member:
        yield member.join().until_owns(PARTITIONS)


@pytest.fixture
def newcomer(kafka, group, topic):
    with RawNewMember(kafka, group, topic) as member:
        yield member


@pytest.fixture
def epoch_before(alone, newcomer):
    """The newcomer has joined, and ``alone`` has given up what it was asked for; the epoch that it had before."""
    before = alone.epoch
    newcomer.join()
    alone.until_asked_back()
    alone.full(alone.owned)
    assert alone.epoch > before
    return before
