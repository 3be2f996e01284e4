"""Native members (`group.protocol=consumer`) with an instance id, and who takes it over from whom.

Each script runs straight at the broker too, and what it asserts holds for both.
"""

import pytest
from support.clients import CONFLUENT, JAVA
from support.native_cases import BROKER_SESSION_S, SLACK_S, each_native
from support.native_group import CLASSIC, MemberKind

pytestmark = pytest.mark.kafka


@each_native()
def test_a_static_one_that_restarts_keeps_its_partitions(native, native_group):
    native_group.join(native)
    old = native_group.join(native, instance_id="one")
    native_group.work(2)
    owned = old.owned()
    native_group.leave(old, settle=False)
    new = native_group.join(native, instance_id="one")
    assert new.owned() == owned
    native_group.work(2)
    native_group.judge()


@each_native(costly=True)
def test_a_killed_static_one_is_back_after_the_brokers_session(native, native_group):
    """Until then the broker refuses its successor (UNRELEASED_INSTANCE_ID), which some clients take for fatal."""
    native_group.join(native)
    old = native_group.join(native, instance_id="one")
    native_group.work(2)
    assert native_group.kill(old) < BROKER_SESSION_S + SLACK_S
    native_group.join(native, instance_id="one")
    native_group.work(2)
    native_group.judge()


@each_native()
def test_a_classic_client_takes_over_from_a_native_one_that_was_closed(native, native_group):
    """The rollback of one application with an instance id."""
    native_group.join(native)
    old = native_group.join(native, instance_id="one")
    native_group.work(2)
    owned = old.owned()
    native_group.leave(old, settle=False)
    new = native_group.join(CLASSIC[0], instance_id="one")
    assert new.owned() == owned
    native_group.work(2)
    native_group.judge()


@each_native(MemberKind(CONFLUENT), MemberKind(JAVA))
def test_a_classic_client_replaces_a_native_one_that_still_runs(native, native_group):
    """The same without waiting for the old process. franz-go is not here: fenced, it joins anew and takes its place
    back from the classic client, straight at Kafka too."""
    native_group.join(native)
    old = native_group.join(native, instance_id="one")
    native_group.work(2)
    owned = old.owned()
    native_group.replaced(old)
    new = native_group.join(CLASSIC[0], instance_id="one", settle=False)
    new.wait_until(lambda: new.owned() == owned, "the new process has the partitions of the old one")
    native_group.wait_until_fenced(old)
    old.kill()
    native_group.settle("the old process is gone")
    native_group.work(2)
    native_group.judge()


@each_native(costly=True)
def test_a_native_client_takes_over_from_a_classic_one_after_its_session(native, native_group):
    """The rollout of one application with an instance id. A static classic client does not leave when it is closed;
    until its session has ended the broker would refuse its successor (UNRELEASED_INSTANCE_ID)."""
    native_group.join(native)
    old = native_group.join(CLASSIC[0], instance_id="one")
    native_group.work(2)
    assert native_group.leave(old) < BROKER_SESSION_S + SLACK_S
    native_group.join(native, instance_id="one")
    native_group.work(2)
    native_group.judge()
