"""A coordinator that is killed and started on its log again is the same coordinator.

A change is one batch, so the boundaries at which a log can end are those of its batches; a log that ends elsewhere ends
in a torn batch, which counts for nothing (test_log.py).
"""

from collections.abc import Sequence
from typing import Any

import pytest

from coordinator.config import CoordinatorConfig
from coordinator.group_coordinator import GroupCoordinator
from coordinator.log import MemoryLog
from coordinator.snapshot import persistent
from coordinator.uuids import SeededUuids
from protocol_codecs.message import Message
from protocol_codecs.records import CoordinatorRecord
from tests.coordinator.core_backend import CONFIG, CoreBackend, CorePending
from tests.coordinator.random_scenarios import RandomGroup
from tests.coordinator.random_share import RandomShareGroup
from tests.coordinator.scenarios import SCENARIOS
from tests.coordinator.script import Script
from tests.coordinator.trace import Recording

UNNOTICED = [
    "join_and_leave",
    "acknowledging_late",
    "releasing_more_than_asked",
    "lost_responses",
    "unreleased_partitions",
    "epochs_are_fenced",
    "client_changes_its_face",
    "subscription_changes",
    "topics_come_later",
    "static_member_bounces",
    "static_member_is_doubled",
    "static_member_becomes_another",
    "range_assignor",
    "assignors_are_voted_for",
    "uniform_with_different_subscriptions",
    "many_members_few_partitions",
    "two_topics_uneven",
    "commits_are_fenced",
    "commits_while_revoking",
    "offsets_are_deleted",
    "groups_are_listed",
    "requests_are_checked",
    "group_is_full",
    "members_have_racks",
    "stranger_comes_to_an_empty_group",
    "share_group_lives",
    "share_epochs_are_fenced",
    "share_requests_are_checked",
    "share_group_is_full",
    "share_topics_change",
    "share_subscriptions_differ",
    "share_group_is_deleted",
    "share_group_collides",
]
"""Scenarios without classic rebalances and without waiting for a timer, of which a restart begins anew."""


class WatchedLog(MemoryLog):
    """A log that remembers the coordinator's state after every change."""

    coordinator: GroupCoordinator

    def __init__(self) -> None:
        super().__init__()
        self.states: list[dict[str, Any]] = []

    def append(self, records: Sequence[CoordinatorRecord], now_ms: int, producer_id: int = -1) -> None:
        super().append(records, now_ms, producer_id)
        self.states.append(logged(self.coordinator))


def logged(coordinator: GroupCoordinator) -> dict[str, Any]:
    """The state as far as a log tells it: classic groups only when they do not rebalance."""
    state = persistent(coordinator)
    rebalancing = {
        group_id
        for group_id, group in coordinator.shard.groups.items()
        if group.state not in {"Empty", "Stable"} and state["groups"][group_id]["type"] == "classic"
    }
    state["groups"] = {name: group for name, group in state["groups"].items() if name not in rebalancing}
    return state | {"rebalancing": rebalancing}


def restarted(batches: Sequence[bytes], config: CoordinatorConfig = CONFIG) -> GroupCoordinator:
    coordinator = GroupCoordinator(config, uuids=SeededUuids(2), log=MemoryLog(batches))
    coordinator.load(0)
    return coordinator


def watched(trace: Any = None) -> tuple[CoreBackend, WatchedLog]:
    backend, log = CoreBackend(trace), WatchedLog()
    log.coordinator, backend.coordinator.shard.log = backend.coordinator, log
    return backend, log


def check_every_boundary(log: WatchedLog) -> None:
    assert len(log.batches) == len(log.states) > 0
    for end, before in enumerate(log.states, start=1):
        after = persistent(restarted(log.batches[:end]))
        after["groups"] = {
            name: group for name, group in after["groups"].items() if name not in before["rebalancing"]
        }
        assert after | {"rebalancing": before["rebalancing"]} == before, end


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_boundary_of_a_log_gives_the_same_groups(name: str):
    recording = Recording.read(name)
    backend, log = watched(recording.trace)

    SCENARIOS[name](Script(backend, recording.prefix))

    check_every_boundary(log)


@pytest.mark.parametrize("seed", range(10))
def test_every_boundary_of_a_random_log_gives_the_same_groups(seed: int):
    backend, log = watched()

    RandomGroup(Script(backend, "random"), seed).play()

    check_every_boundary(log)


@pytest.mark.parametrize("seed", range(10))
def test_every_boundary_of_a_random_share_group_s_log_gives_the_same_groups(seed: int):
    backend, log = watched()

    RandomShareGroup(Script(backend, "random"), seed).play()

    check_every_boundary(log)


def test_an_initialization_that_a_crash_interrupted_is_tried_again():
    backend, log = watched()
    script = Script(backend, "crash")
    script.topic("foo", 2)
    member = script.sharing("A")
    member.join()
    backend.coordinator = GroupCoordinator(
        CONFIG, uuids=SeededUuids(2), log=MemoryLog(log.batches[:1]), image=backend.image
    )
    backend.coordinator.load(backend.now_ms)

    told = [member.beat()["assignment"] for _ in range(3)]
    for _ in range(6):  # heartbeats within the session, until the retry interval has passed
        script.pass_time(CONFIG.share_initialize_retry_interval_ms // 6 + 1)
        member.beat()

    assert told == [None, None, None]
    assert member.assigned == {}
    member.beat()
    assert member.assigned == {"foo": [0, 1]}


def fail_over(backend: CoreBackend, log: MemoryLog) -> None:
    """Let another coordinator load the log, with the topics that there are by now."""
    backend.coordinator = GroupCoordinator(
        CONFIG, uuids=SeededUuids(2), log=MemoryLog(log.batches), image=backend.image
    )
    backend.coordinator.load(backend.now_ms)


def test_after_a_failover_a_topic_that_has_grown_meanwhile_is_assigned():
    backend, log = watched()
    script = Script(backend, "failover")
    script.topic("foo", 1)
    member = script.member("A")
    member.join()
    epoch = member.epoch

    script.add_partitions("foo", 2)
    fail_over(backend, log)
    script.pass_time(CONFIG.consumer_assignment_interval_ms)
    member.beat()

    assert member.epoch > epoch
    assert member.assigned == {"foo": [0, 1]}


def test_after_a_failover_a_topic_that_matches_an_expression_is_found():
    backend, log = watched()
    script = Script(backend, "failover")
    script.topic("foo", 1)
    member = script.member("A", topics=None, regex="fo.*")
    member.join()
    script.pass_time(CONFIG.consumer_assignment_interval_ms)
    member.beat()
    assert member.assigned == {"foo": [0]}

    script.topic("fox", 1)
    fail_over(backend, log)
    for _ in range(6):
        script.pass_time(CONFIG.consumer_session_timeout_ms // 2)
        member.beat()

    assert member.assigned == {"foo": [0], "fox": [0]}


def test_after_a_failover_an_assignment_that_is_behind_is_computed():
    backend, log = watched()
    script = Script(backend, "failover")
    script.topic("foo", 2)
    first, second = script.member("A"), script.member("B")
    first.join()
    second.join()
    behind = script.describe()
    assert behind["assignment_epoch"] < behind["group_epoch"]

    fail_over(backend, log)
    script.pass_time(CONFIG.consumer_assignment_interval_ms)
    first.settle()
    second.beat()

    assert script.describe()["assignment_epoch"] == behind["group_epoch"]
    assert (first.assigned, second.assigned) == ({"foo": [0]}, {"foo": [1]})


def test_after_a_failover_each_member_has_a_whole_session():
    backend, log = watched()
    script = Script(backend, "failover")
    script.topic("foo", 1)
    script.member("A").join()

    script.pass_time(CONFIG.consumer_session_timeout_ms - 1)
    fail_over(backend, log)
    script.pass_time(CONFIG.consumer_session_timeout_ms - 1)
    assert [member["id"] for member in script.describe()["members"]] == ["A"]

    script.pass_time(1)
    assert script.describe()["members"] == []


class RestartingBackend(CoreBackend):
    """Another coordinator on the same log for every request."""

    def send(self, request: Message, version: int, client_id: str) -> CorePending:
        old = self.coordinator
        self.coordinator = GroupCoordinator(CONFIG, uuids=self.uuids, log=self.log, image=old.shard.image)
        for group_id, config in old.shard.group_configs.items():
            self.coordinator.set_group_config(group_id, config)
        self.coordinator.load(self.now_ms)
        return super().send(request, version, client_id)


@pytest.mark.parametrize("name", UNNOTICED)
def test_nobody_notices_a_restart_before_every_request(name: str):
    theirs = Recording.read(name)
    script = Script(RestartingBackend(theirs.trace), theirs.prefix)

    SCENARIOS[name](script)

    assert script.transcript == theirs.transcript
