"""Classic and new workers in one group: the conversions by hand, histories, and breakages that histories notice.

``python -m tests.coordinator.connect_groups.mixed --seeds 2000`` runs more histories.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from unittest.mock import patch

import pytest

from coordinator.classic_groups.group import ClassicGroup
from coordinator.connect_groups import classic_members, conversion
from coordinator.connect_groups.formats import Said, for_leader, read_differences
from coordinator.connect_groups.group import ConnectGroup
from coordinator.shard import Call
from protocol_codecs import ErrorCode
from protocol_codecs import connect_groups as c
from protocol_codecs.all_messages import JoinGroupRequest, JoinGroupRequestProtocol, SyncGroupRequest
from tests.coordinator.connect_groups.mixed.world import GROUP, ClassicWorker, MixedWorld, history
from tests.coordinator.connect_groups.talk import COMPATIBLE
from tests.hosting.groups.connect.world import SESSION_MS

SEEDS = range(1, 9)
REST_MS = 60_000


def group_of(world: MixedWorld) -> ConnectGroup:
    return world.room.connect.shard.groups[GROUP]


@pytest.fixture
def world() -> MixedWorld:
    """Two classic workers that run everything; nothing is under way."""
    world = MixedWorld(1)
    world.add()
    world.add()
    world.configure(orders=3, refunds=2)
    world.run(REST_MS)
    return world


def test_the_first_new_worker_converts_the_group_and_the_epoch_starts_at_the_generation(world: MixedWorld):
    generation = world.room.epoch()
    before = {one.name: dict(one.runs) for one in world.alive}

    world.add_new()
    world.run(10)

    group = group_of(world)
    assert GROUP not in world.room.groups.shard.groups
    assert (group.assignment_epoch, group.group_epoch) == (generation, generation + 1)
    assert {one.name: one.runs for one in world.of_kind(ClassicWorker)} == before
    assert all(len(owners) == 1 for owners in group.owners.values())


def test_a_classic_leader_computes_for_new_workers_too(world: MixedWorld):
    leader = next(one for one in world.alive if one.leads)
    new = world.add_new()

    world.run(REST_MS)

    assert group_of(world).leader.member_id == leader.member_id
    assert new.runs
    assert world.counts["computed by a new worker"] == 0


def test_a_new_worker_computes_for_classic_ones_when_their_leader_has_left(world: MixedWorld):
    new, later = world.add_new(), world.add()
    world.run(REST_MS)
    for one in world.of_kind(ClassicWorker):
        if one is not later:
            one.leave()

    world.run(REST_MS)

    assert group_of(world).leader.member_id == new.member_id
    assert later.assigned.leader_url == new.url
    assert sorted([*later.runs, *new.runs]) == sorted(world.configured_at(world.latest))


def test_the_group_is_classic_again_when_the_last_new_worker_has_left(world: MixedWorld):
    new = world.add_new()
    world.run(REST_MS)
    epoch = group_of(world).group_epoch

    new.leave()
    classic = world.room.groups.shard.groups[GROUP]
    assert isinstance(classic, ClassicGroup)
    assert classic.generation == epoch
    world.run(REST_MS)

    assert GROUP not in world.room.connect.shard.groups
    assert world.room.epoch() > epoch
    running = sorted(work for one in world.alive for work in one.runs)
    assert running == sorted(world.configured_at(world.latest))


def test_a_new_worker_that_dies_last_gives_the_group_back_when_its_session_ends(world: MixedWorld):
    new = world.add_new()
    world.run(REST_MS)

    new.die()
    world.run(2 * SESSION_MS)

    assert GROUP not in world.room.connect.shard.groups


def test_a_coordinator_that_takes_over_in_the_rebalance_after_it_became_classic_loses_no_task(
    world: MixedWorld,
):
    new = world.add_new()
    world.run(REST_MS)
    new.leave()

    world.start_room()
    world.run(REST_MS)

    running = sorted(work for one in world.alive for work in one.runs)
    assert running == sorted(world.configured_at(world.latest))


def test_a_classic_group_whose_workers_stop_everything_at_each_rebalance_stays_classic():
    world = MixedWorld(1)
    world.add(protocols=("compatible",))
    world.run(REST_MS)
    group = world.room.groups.shard.groups[GROUP]
    for member in group.members.values():
        member.protocols = tuple(replaced(one, name="default") for one in member.protocols)

    answer = world.room.connect.handle(
        c.ConnectGroupHeartbeatRequest(
            group_id=GROUP,
            member_id="n",
            rebalance_timeout_ms=1_000,
            client_assignors=(COMPATIBLE,),
            connectors_and_tasks=(),
        ),
        Call(1, 0),
        world.now_ms,
    )

    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.room.groups.shard.groups[GROUP] is group


def test_a_worker_that_comes_with_what_another_runs_stops_it_first(world: MixedWorld):
    world.add_new()
    world.run(REST_MS)
    one, other = (worker for worker in world.of_kind(ClassicWorker) if worker.runs)
    theirs = frozenset(other.runs)
    ours = frozenset(one.runs)
    room = world.room.connect
    request = JoinGroupRequest(
        group_id=GROUP,
        member_id="later",
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=SESSION_MS,
        protocol_type="connect",
        protocols=(
            JoinGroupRequestProtocol(
                name="sessioned", metadata=for_leader(Said("http://l/", 1, theirs), "sessioned")
            ),
        ),
    )

    joined = room.handle(request, Call(1, 4), world.now_ms)
    sync = SyncGroupRequest(group_id=GROUP, member_id="later", generation_id=joined.generation_id)
    difference = read_differences({"": room.handle(sync, Call(2, 4), world.now_ms).assignment})[""]

    assert (difference.assigned, difference.revoked) == (frozenset(), theirs)
    assert frozenset(one.runs) == ours
    assert all(len(group_of(world).owners[work]) == 2 for work in theirs)


def test_a_session_timeout_that_a_classic_group_refuses_is_refused(world: MixedWorld):
    world.add_new()
    world.run(REST_MS)
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=1,
        protocol_type="connect",
        protocols=(
            JoinGroupRequestProtocol(
                name="sessioned", metadata=for_leader(Said("", 1, frozenset()), "sessioned")
            ),
        ),
    )

    answer = world.room.connect.handle(request, Call(1, 4), world.now_ms)

    assert answer.error_code == ErrorCode.INVALID_SESSION_TIMEOUT


def replaced(protocol, **changes):
    return type(protocol)(**{"name": protocol.name, "metadata": protocol.metadata, **changes})


# Histories


def test_a_few_histories_keep_all_rules():
    results = [(seed, *history(seed)) for seed in SEEDS]
    counts = sum((counts for _, _, counts in results[1:]), results[0][2])

    assert [(seed, violation) for seed, violation, _ in results if violation] == []
    assert (
        min(counts["upgrade"], counts["downgrade"], counts["computed by a new worker"], counts["restart"]) > 0
    )


@pytest.mark.long
@pytest.mark.parametrize("first", range(9, 209, 50))
def test_many_histories_keep_all_rules(first: int):
    assert [(seed, why) for seed in range(first, first + 50) if (why := history(seed)[0])] == []


def test_a_seed_is_a_history():
    assert history(3) == history(3)


# Breakages

Mutation = Callable[[], AbstractContextManager[object]]
_reconciled = classic_members.reconciled


def give_what_others_hold() -> AbstractContextManager[object]:
    return patch.object(
        classic_members,
        "reconciled",
        lambda member, epoch, part, owners, owned: _reconciled(member, epoch, part, {}, owned),
    )


def forget_what_workers_run_when_the_group_is_converted() -> AbstractContextManager[object]:
    return patch.object(conversion, "_runs", lambda group, member, said: (frozenset(), frozenset()))


def take_an_assignment_for_all_that_a_worker_runs() -> AbstractContextManager[object]:
    def broken(group, member, said):
        read = conversion.formats.read_differences({"": member.assignment}) if member.assignment else None
        return (frozenset() if read is None else read[""].assigned), frozenset()

    return patch.object(conversion, "_runs", broken)


def begin_a_converted_group_at_epoch_1() -> AbstractContextManager[object]:
    real = conversion.ConnectGroup
    return patch.object(conversion, "ConnectGroup", lambda group_id, epoch: real(group_id, 1))


def never_trigger_a_join() -> AbstractContextManager[object]:
    return patch.object(classic_members, "_has_to_join", lambda group, member: False)


def always_trigger_a_join() -> AbstractContextManager[object]:
    return patch.object(classic_members, "_has_to_join", lambda group, member: True)


def never_become_classic_again() -> AbstractContextManager[object]:
    return patch.object(conversion, "downgrades", lambda shard, group, leaving: False)


def forget_differences_when_the_group_becomes_classic() -> AbstractContextManager[object]:
    return patch.object(conversion, "_difference", lambda group, member, said: b"")


NOTICED_BY: dict[Mutation, int] = {
    give_what_others_hold: 2,
    forget_what_workers_run_when_the_group_is_converted: 12,
    take_an_assignment_for_all_that_a_worker_runs: 25,
    begin_a_converted_group_at_epoch_1: 2,
    never_trigger_a_join: 2,
    always_trigger_a_join: 2,
    never_become_classic_again: 2,
    forget_differences_when_the_group_becomes_classic: 662,
}


@pytest.mark.parametrize("mutation", NOTICED_BY, ids=lambda mutation: mutation.__name__)
def test_a_planted_breakage_is_noticed(mutation: Mutation):
    with mutation():
        assert history(NOTICED_BY[mutation])[0] is not None
