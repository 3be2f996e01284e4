"""Native members (`group.protocol=consumer`) with an instance id, and who takes it over from whom.

Each script runs straight at the broker too, and what it asserts holds for both. Only with a native member that still
runs when a classic one takes its place they differ: the proxy makes that one a member of the new protocol.
"""

import pytest
from support.clients import CONFLUENT, JAVA
from support.consumers import ConsumerProcess
from support.native_cases import (
    BROKER_SESSION_S,
    SLACK_S,
    each_native,
    each_native_straight,
)
from support.native_group import CLASSIC, MemberKind, NativeGroup
from support.other_clients import FRANZ_GO

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


@each_native(MemberKind(JAVA), through=(MemberKind(CONFLUENT), MemberKind(FRANZ_GO)))
def test_a_classic_client_replaces_a_native_one_that_still_runs(native, native_group):
    """The same without waiting for the old process. Java ends when it is fenced. Others join anew, and are refused
    through the proxy, since their successor is a member of the new protocol too; straight see below."""
    old, new = _replaced_while_it_runs(native, native_group)
    native_group.wait_until_refused(old)
    old.kill()
    native_group.settle("the old process is gone")
    native_group.work(2)
    assert not new.seen("lost")
    native_group.judge()


@each_native_straight(MemberKind(CONFLUENT), MemberKind(FRANZ_GO))
def test_straight_at_the_broker_a_native_one_that_still_runs_takes_its_place_back(native, native_group):
    """Its heartbeat is answered with UNKNOWN_MEMBER_ID, so it joins anew; the broker lets a native member replace a
    classic one at any time, which then hears that it is fenced."""
    old, new = _replaced_while_it_runs(native, native_group)
    new.wait_until(lambda: any(error.fields["fatal"] for error in new.seen("error")), f"{new.name} is fenced")
    native_group.replaced(new)
    native_group.returned(old)
    new.kill()
    native_group.settle("the new process is gone")
    assert old.seen("lost")
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


def _replaced_while_it_runs(
    native: MemberKind, native_group: NativeGroup
) -> tuple[ConsumerProcess, ConsumerProcess]:
    """A native member, and the classic client that has got its partitions."""
    native_group.join(native)
    old = native_group.join(native, instance_id="one")
    native_group.work(2)
    owned = old.owned()
    native_group.replaced(old)
    new = native_group.join(CLASSIC[0], instance_id="one", settle=False)
    new.wait_until(
        lambda: any(assigned.partitions == owned for assigned in new.seen("assigned")),
        "the new process has the partitions of the old one",
    )
    return old, new
