"""Deliberate breakages of the real code, each of which the simulation has to notice.

``python -m tests.coordinator.client_side.mutations --search 300`` looks for the first seed that notices each.
"""

import argparse
import inspect
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType

import msgspec

from coordinator import records
from coordinator.consumer_groups import assigning, group, stepping
from coordinator.consumer_groups.client_side import (
    answering,
    choice,
    computing,
    declaring,
    installing,
    preparing,
)
from tests.coordinator.client_side.world import Result, play


class Mutation(msgspec.Struct, frozen=True):
    """One function whose source has ``new`` in place of ``old``; ``seed`` notices it."""

    what: str
    place: ModuleType | type
    function: str
    old: str
    new: str
    seed: int = 0


@contextmanager
def planted(mutation: Mutation) -> Iterator[None]:
    """Break the code while the context is open."""
    original = vars(mutation.place)[mutation.function]
    source = textwrap.dedent(inspect.getsource(original))
    assert source.count(mutation.old) == 1, (mutation.what, source.count(mutation.old))
    names: dict[str, object] = {}
    broken = source.replace(mutation.old, mutation.new).replace("super()", f"super({'ConsumerGroup'}, self)")
    exec(compile(broken, f"<{mutation.what}>", "exec"), original.__globals__, names)  # noqa: S102
    replacement = names[mutation.function]
    assert isinstance(replacement, FunctionType)
    # The code is exchanged, not the name: other modules have imported the function already.
    code, original.__code__ = original.__code__, replacement.__code__
    try:
        yield
    finally:
        original.__code__ = code


def noticed(mutation: Mutation, seed: int) -> str:
    """What is wrong in this history while the code is broken; empty if nothing is noticed."""
    with planted(mutation):
        try:
            result: Result = play(seed)
        except Exception as error:  # noqa: BLE001  a broken coordinator may fail anyhow
            return f"{type(error).__name__}: {error}"
    return result.failure


MUTATIONS: tuple[Mutation, ...] = (
    Mutation(
        "a partition is assigned twice",
        installing,
        "_part",
        "(topic.topic_id, number) in assigned",
        "False",
        seed=1,
    ),
    Mutation(
        "a partition is left to nobody",
        installing,
        "checked",
        "len(assigned) < total and",
        "False and",
        seed=3,
    ),
    Mutation(
        "a partition is assigned that is not there",
        installing,
        "_part",
        "not 0 <= number < count",
        "False",
        seed=11,
    ),
    Mutation(
        "a member is assigned what it does not subscribe to",
        installing,
        "_part",
        "topic.topic_id not in told.subscribed_topic_ids",
        "False",
        seed=2,
    ),
    Mutation(
        "a member that is none is assigned partitions",
        installing,
        "_part",
        "prepared.members.get(member.member_id)",
        "prepared.members.get(member.member_id, next(iter(prepared.members.values())))",
        seed=34,
    ),
    Mutation("a member is named twice", installing, "checked", "member.member_id in parts", "False", seed=5),
    Mutation(
        "metadata of any version is passed on",
        installing,
        "_part",
        "not told.minimum_version <= member.metadata_version <= told.maximum_version",
        "False",
        seed=5,
    ),
    Mutation(
        "any epoch is taken",
        installing,
        "checked",
        "request.group_epoch != prepared.group_epoch",
        "False",
        seed=1,
    ),
    Mutation(
        "an assignment for an older epoch is taken for one of the present epoch",
        installing,
        "install",
        "records.target_epoch(group.group_id, prepared.group_epoch,",
        "records.target_epoch(group.group_id, group.group_epoch,",
        seed=1,
    ),
    Mutation(
        "a member that left while it was computed is assigned its part",
        installing,
        "install",
        "computing.end(shard, group)",
        "[draft.records.insert(0, records.target_assignment(group.group_id, one, parts[one][0])) "
        "for one in parts if one not in group.members]",
        seed=58,
    ),
    Mutation(
        "a static member's replacement loses its part",
        installing,
        "_told_as",
        "return by_instance.get(member.instance_id, member.member_id)",
        "return member.member_id",
        seed=58,
    ),
    Mutation(
        "what has been said beside the partitions stays when the partitions do",
        installing,
        "_set_target",
        "or group.target_details.get(member_id, NO_DETAILS) != details",
        "",
        seed=1,
    ),
    Mutation(
        "a failed assignor takes everything away",
        installing,
        "install",
        "_has_only_failed(request)",
        "False",
        seed=17,
    ),
    Mutation(
        "a dead computer is waited for",
        computing,
        "_start",
        "shard.schedule(timer, max(member.rebalance_timeout_ms, LEAST_TIMEOUT_MS))",
        "pass",
        seed=2,
    ),
    Mutation(
        "a computer whose time is over is chosen again",
        computing,
        "on_timeout",
        "[*tried, expired.member_id]",
        "[]",
        seed=2,
    ),
    Mutation(
        "everybody is told to compute",
        computing,
        "tell",
        "computation.member_id != member.member_id",
        "False",
        seed=1,
    ),
    Mutation(
        "the timeout begins anew whenever it is told",
        computing,
        "tell",
        "not computation.is_told",
        "True",
        seed=2,
    ),
    Mutation(
        "each heartbeat chooses anew", computing, "keep_up", "now.assignor == assignor", "False", seed=1
    ),
    Mutation(
        "nobody is chosen after an install",
        computing,
        "_choose",
        "if not able:",
        "if group.last_computing_member:",
        seed=1,
    ),
    Mutation(
        "a member computes what nobody needs",
        computing,
        "keep_up",
        "group.assignment_epoch >= group.group_epoch",
        "False",
        seed=1,
    ),
    Mutation(
        "any epoch may ask",
        preparing,
        "computation_of",
        "request.member_epoch != member.member_epoch",
        "False",
        seed=20,
    ),
    Mutation(
        "any member may ask and install",
        preparing,
        "computation_of",
        "group.computation.member_id != member.member_id",
        "False",
        seed=2,
    ),
    Mutation(
        "an assignment is checked by what was told first",
        preparing,
        "prepare",
        "prepared=prepared",
        "prepared=computation.prepared or prepared",
        seed=9,
    ),
    Mutation(
        "an old target is told as the present one",
        preparing,
        "prepare",
        "group_epoch=group.group_epoch",
        "group_epoch=group.assignment_epoch",
        seed=1,
    ),
    Mutation(
        "a member that left and came back goes on with its turn",
        group.ConsumerGroup,
        "remove_member",
        "self.computation.member_id == member_id",
        "False",
        seed=785,
    ),
    Mutation(
        "one member with a client-side assignor is enough",
        choice,
        "_chosen_by_names",
        "set.intersection",
        "set.union",
        seed=3,
    ),
    Mutation(
        "the coordinator assigns although members do",
        assigning,
        "_is_for_members",
        "is not None",
        "is NotImplemented",
        seed=1,
    ),
    Mutation(
        "what a member's assignor said stays when the coordinator assigns",
        assigning,
        "target_for",
        "or member_id in group.target_details",
        "",
        seed=7,
    ),
    Mutation(
        "other metadata asks for nothing",
        declaring,
        "asks_for_assignment",
        "return _without_reasons(old)",
        "return False and _without_reasons(old)",
        seed=3,
    ),
    Mutation(
        "members are not told what comes with a new target",
        stepping,
        "step",
        "details=target.details",
        "details=moved.details",
        seed=1,
    ),
    Mutation(
        "metadata of the target is not in the log",
        records,
        "target_assignment",
        "details != NO_DETAILS",
        "False",
        seed=1,
    ),
    Mutation(
        "metadata of the current assignment is not in the log",
        records,
        "current_assignment",
        "member.details != NO_DETAILS",
        "False",
        seed=1,
    ),
    Mutation(
        "client-side assignors are not in the log",
        records,
        "member_subscription",
        "if member.client_assignors",
        "if False",
        seed=3,
    ),
    Mutation(
        "members do not hear of what others still own",
        answering,
        "_pending",
        "member.state is not MemberState.UNRELEASED_PARTITIONS",
        "True",
        seed=2,
    ),
)


def main() -> int:
    """Print for each mutation the first seed that notices it; the exit code is 0 if all are noticed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.coordinator.client_side.mutations", description=__doc__
    )
    parser.add_argument("--search", type=int, default=300, help="try so many seeds")
    options = parser.parse_args()
    all_noticed = True
    for mutation in MUTATIONS:
        for seed in range(1, options.search + 1):
            failure = noticed(mutation, seed)
            if failure:
                print(f"{seed:>5}  {mutation.what}: {failure[:110]}", flush=True)
                break
        else:
            all_noticed = False
            print(f"  ???  {mutation.what}", flush=True)
    return 0 if all_noticed else 1


if __name__ == "__main__":
    sys.exit(main())
