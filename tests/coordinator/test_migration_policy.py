"""``group.consumer.migration.policy``: which conversions of live groups a coordinator makes."""

import pytest
from msgspec.structs import replace

from coordinator.config import MigrationPolicy
from protocol_codecs import ErrorCode
from tests.coordinator.core_backend import CONFIG, CoreBackend
from tests.coordinator.scenarios.steps import stable_pair
from tests.coordinator.script import Script

UPGRADES = {MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE}
DOWNGRADES = {MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE}


def script(policy: MigrationPolicy) -> Script:
    s = Script(CoreBackend(config=replace(CONFIG, consumer_migration_policy=policy)), "policy")
    s.topic("foo", 4)
    return s


def group_type(s: Script) -> str:
    s.list()
    ((_, _, found),) = s.transcript[-1][1]
    return str(found)


@pytest.mark.parametrize("policy", MigrationPolicy)
def test_a_member_of_the_new_protocol_converts_a_classic_group_only_if_the_policy_upgrades(
    policy: MigrationPolicy,
):
    s = script(policy)
    stable_pair(s)

    error = s.member("N").join()["error"]

    assert error == ("NONE" if policy in UPGRADES else "GROUP_ID_NOT_FOUND")
    assert group_type(s) == ("consumer" if policy in UPGRADES else "classic")


@pytest.mark.parametrize(
    "policy", [policy for policy in MigrationPolicy if policy is not MigrationPolicy.DISABLED]
)
def test_the_last_member_of_the_new_protocol_leaves_a_classic_group_behind_only_if_the_policy_downgrades(
    policy: MigrationPolicy,
):
    s = script(policy)
    native, classic = s.member("N"), s.classic("C")
    native.join()
    classic.join()

    native.leave()

    assert group_type(s) == ("classic" if policy in DOWNGRADES else "consumer")


def test_a_classic_member_may_not_join_a_consumer_group_where_migration_is_disabled():
    s = script(MigrationPolicy.DISABLED)
    s.member("N").join()

    assert s.classic("C").join().error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
