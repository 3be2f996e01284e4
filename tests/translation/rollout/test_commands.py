"""What somebody says about the move of a group, and what it makes of the move: by table, and with a member log."""

from typing import Any

import pytest
from msgspec.structs import replace

from protocol_codecs import ErrorCode
from tests.translation.bench import GROUP, Bench
from tests.translation.live_groups import A, described
from tests.translation.member_log.bench import Replica, SharedLog
from translation.actions import CallHook, EventKind
from translation.member_log.group_records import MOVE, GroupRecord, HookCall, Move, Phase, encode_group_value
from translation.moving.command_writes import CommandOutcome, CommandState
from translation.moving.move_view import TO_APPROVE
from translation.policy.policy import Approval, Mode, Policy, Rule, digest_of
from translation.rollout.commands import Command, CommandContext, CommandKind, Refused, apply_command
from translation.rollout.next_step import begin
from translation.settings import TranslatorSettings

STEPS = Rule(group=GROUP, mode=Mode.TRANSLATE, steps=(1, "50%", "100%"), hold_s=0)
APPROVED = Rule(
    group=GROUP, mode=Mode.TRANSLATE, steps=(1, "50%", "100%"), hold_s=0, approval=Approval.REQUIRED
)
PAUSED_BY_POLICY = Rule(group=GROUP, mode=Mode.TRANSLATE, steps=(1, "50%", "100%"), hold_s=0, pause=True)
WHOLE = Rule(group=GROUP, mode=Mode.TRANSLATE, steps=("100%",))
NO_STEPS = Rule(group=GROUP, mode=Mode.TRANSLATE)

MOVING = begin(STEPS, 7, 1)
SETTLED = replace(MOVING, settled_ms=5, converted=True)
AWAITED = begin(APPROVED, 7, 1)
LAST = replace(SETTLED, step=2)


def in_phase(phase: Phase, move: Move = SETTLED) -> Move:
    return replace(move, phase=phase)


def say(act: str, **more: Any) -> Command:
    return Command(**{"id": "1", "act": CommandKind(act), "group": GROUP, "by": "uid 7", **more})


def after(command: Command, move: Move | None, rule: Rule) -> Move:
    present = CommandContext(move=move, rule=rule, policy="p", now_ms=99, position=40)
    return apply_command(command, present)


def approve(step: int, policy: str = "p") -> Command:
    return say("approve", step=step, policy=policy)


@pytest.mark.parametrize(
    ("command", "move", "rule", "expected"),
    [
        (approve(1), AWAITED, APPROVED, {"phase": Phase.AWAITING, "approved": 1}),
        (approve(2), SETTLED, APPROVED, {"phase": Phase.MOVING, "step": 0, "approved": 2}),
        (say("pause"), SETTLED, STEPS, {"phase": Phase.PAUSED, "settled_ms": 5, "why": "by uid 7"}),
        (say("pause", why="x"), AWAITED, APPROVED, {"phase": Phase.PAUSED, "why": "by uid 7: x"}),
        (say("resume"), in_phase(Phase.PAUSED), STEPS, {"phase": Phase.MOVING, "settled_ms": 5, "number": 7}),
        # What nobody is translated by any more, or soon nobody will be, begins anew.
        (say("resume"), in_phase(Phase.ABORTED, LAST), STEPS, {"step": 0, "settled_ms": 0, "number": 41}),
        (say("resume"), in_phase(Phase.HELD, LAST), STEPS, {"step": 0, "converted": False, "number": 41}),
        (say("resume"), in_phase(Phase.ROLLED_BACK, LAST), STEPS, {"phase": Phase.MOVING, "number": 41}),
        (
            say("resume"),
            replace(LAST, phase=Phase.ROLLED_BACK, approved=3),
            APPROVED,
            {"phase": Phase.AWAITING, "approved": 0},
        ),
        (
            say("resume"),
            replace(AWAITED, phase=Phase.PAUSED, approved=1),
            APPROVED,
            {"phase": Phase.AWAITING, "approved": 1},
        ),
        (say("rollback", why="lag"), LAST, STEPS, {"phase": Phase.ROLLED_BACK, "why": "by uid 7: lag"}),
        (say("rollback"), in_phase(Phase.PAUSED), STEPS, {"phase": Phase.ROLLED_BACK}),
        (say("rollback"), None, STEPS, {"phase": Phase.ROLLED_BACK, "number": 41}),
        (say("rollback"), None, WHOLE, {"phase": Phase.ROLLED_BACK}),
    ],
)
def test_what_a_command_makes_of_a_move(
    command: Command, move: Move | None, rule: Rule, expected: dict[str, object]
) -> None:
    made = after(command, move, rule)
    assert {name: getattr(made, name) for name in expected} == expected
    assert made.said is not None
    assert (made.said.act, made.said.by, made.said.at_ms, made.said.id) == (command.act, "uid 7", 99, "1")


@pytest.mark.parametrize(
    ("command", "move", "rule"),
    [
        (approve(2), replace(SETTLED, approved=2), APPROVED),
        (say("pause"), in_phase(Phase.PAUSED), STEPS),
        (say("resume"), MOVING, STEPS),
        (say("resume"), AWAITED, APPROVED),
        (say("rollback"), in_phase(Phase.ROLLED_BACK), STEPS),
        (say("rollback"), in_phase(Phase.ABORTED), STEPS),
    ],
)
def test_what_is_so_already_is_not_said_anew(command: Command, move: Move, rule: Rule) -> None:
    assert after(command, move, rule) is move


@pytest.mark.parametrize(
    ("command", "move", "rule", "why"),
    [
        (
            approve(2, "q"),
            SETTLED,
            APPROVED,
            "the policy in force is p, not q; now: step 1 of 3 (1), settled",
        ),
        (say("pause", policy="q"), SETTLED, STEPS, "the policy in force is p, not q"),
        (approve(2, ""), SETTLED, APPROVED, "an approval names the policy, which is p"),
        (approve(0), SETTLED, APPROVED, "an approval names the policy"),
        (approve(1), SETTLED, APPROVED, "the next step is 2, not 1"),
        (approve(3), SETTLED, APPROVED, "the next step is 2, not 3"),
        (approve(2), MOVING, APPROVED, "the step before it has not settled"),
        (approve(2), LAST, APPROVED, "it is at its last step; now: step 3 of 3 (100%), settled"),
        (approve(2), SETTLED, STEPS, "its steps need no approval"),
        (approve(2), in_phase(Phase.PAUSED), APPROVED, "nothing is to be approved now"),
        (approve(1), None, APPROVED, "its move has not begun"),
        (say("pause"), None, STEPS, "its move has not begun"),
        (
            say("pause"),
            in_phase(Phase.ROLLED_BACK),
            STEPS,
            "it does not move; now: step 1 of 3 (1), rolled back",
        ),
        (say("pause"), begin(WHOLE, 1, 1), WHOLE, "it can be rolled back"),
        (say("resume"), in_phase(Phase.PAUSED), PAUSED_BY_POLICY, "the policy says `pause: true`"),
        (say("rollback"), None, NO_STEPS, "the policy has no steps for this group"),
    ],
)
def test_what_is_about_something_else_is_refused_and_told_what_is_now(
    command: Command, move: Move | None, rule: Rule, why: str
) -> None:
    with pytest.raises(Refused) as refused:
        after(command, move, rule)
    assert why in str(refused.value)


def test_the_largest_record_fits_in_its_bound() -> None:
    """Else it could not be written, and a group would go on by what was said before."""
    steps = ", ".join(str(10**6 - 99 + n) for n in range(100))
    wide = "\U0001f600" * 300
    move = Move(steps, number=10**12, since_ms=10**13, settled_ms=10**13)
    paused = after(say("pause", by=wide, why=wide, id="i" * 64), move, STEPS)
    largest = replace(paused, hook=HookCall(step=1, by="f" * 32, asked_ms=10**13, why=wide[:200]))
    encode_group_value(GroupRecord(version=10**12, server="s" * 255, move=largest))


def test_a_digest_changes_with_what_a_policy_says_alone() -> None:
    policy = Policy(rules=(STEPS,))
    assert digest_of(policy) == digest_of(Policy(rules=(replace(STEPS),)))
    assert digest_of(policy) != digest_of(Policy(rules=(APPROVED,)))
    assert len(digest_of(policy)) == 16


# -- in one process ----------------------------------------------------------------------------------------------------


def policy_of(rule: Rule) -> Policy:
    return Policy(rules=(rule,))


def give(bench: Bench, command: Command) -> CommandOutcome:
    outcome = bench.translator.rollout.command(bench.now, command)
    bench._do(bench.translator.take_actions(bench.now))
    return outcome


def newcomer(bench: Bench) -> int:
    return bench.join(bench.connect(), "")


def is_admitted(bench: Bench) -> bool:
    """Whether the next newcomer to a group of one classic member may be translated."""
    bench.advance(61)
    joined = newcomer(bench)
    if bench.calls:
        bench.reply(described({"epochgate-other": (1, 5), A: (0, 5)}))
    return joined not in bench.forwarded and bench.error(joined) == ErrorCode.MEMBER_ID_REQUIRED


def test_a_first_step_begins_when_it_is_approved() -> None:
    bench = Bench(policy=policy_of(replace(APPROVED, steps=(2, "100%"))), new_group=False)
    assert not is_admitted(bench)
    assert bench.translator.rollout.moves_by_phase() == {TO_APPROVE: 1}
    digest = bench.translator._context.rules.digest
    refused = give(bench, say("approve", step=2, policy=digest))
    assert (refused.state, refused.changed) == (CommandState.REFUSED, False)
    done = give(bench, say("approve", step=1, policy=digest, id="2"))
    assert (done.state, done.changed) == (CommandState.DONE, True)
    assert is_admitted(bench)
    assert bench.translator.rollout.moves_by_phase() == {Phase.MOVING: 1}
    assert "approve by uid 7: before step 1 of 2 (2)" in [
        event.reason for event in bench.events if event.kind is EventKind.STEP_CHANGED
    ]


def test_a_pause_lets_nobody_in_until_it_is_over() -> None:
    bench = Bench(policy=policy_of(replace(STEPS, steps=(3,))), new_group=False)
    assert is_admitted(bench)
    give(bench, say("pause"))
    assert not is_admitted(bench)
    give(bench, say("resume", id="2"))
    assert is_admitted(bench)


def test_the_same_command_counts_once() -> None:
    bench = Bench(policy=policy_of(replace(STEPS, steps=(3,))), new_group=False)
    assert is_admitted(bench)
    give(bench, say("pause"))
    give(bench, say("resume", id="2"))
    again = give(bench, say("resume", id="2"))
    assert (again.state, again.changed) == (CommandState.DONE, True)
    said = [event.reason for event in bench.events if event.kind is EventKind.STEP_CHANGED]
    assert len([one for one in said if one.startswith("resume by")]) == 1


def test_several_processes_without_a_member_log_take_no_command() -> None:
    bench = Bench(policy=policy_of(STEPS), settings=TranslatorSettings(sole_process=False))
    refused = give(bench, say("rollback"))
    assert refused.state is CommandState.REFUSED
    assert "need a member log" in refused.text


# -- with a member log -------------------------------------------------------------------------------------------------


def command(replica: Replica, said: Command) -> CommandOutcome:
    outcome = replica.translator.rollout.command(replica.now, said)
    replica._do(replica.translator.take_actions(replica.now))
    return outcome


def phase(replica: Replica) -> str:
    view = replica.translator.rollout.move_of(GROUP)
    return "" if view is None else view.phase


def test_a_command_is_pending_until_it_is_read_back_and_then_every_replica_holds_to_it() -> None:
    shared = SharedLog()
    one, other = shared.replica(policy=policy_of(STEPS)), shared.replica(policy=policy_of(STEPS))
    shared.is_held = True
    assert command(one, say("rollback")).state is CommandState.PENDING
    shared.settle()
    assert command(one, say("rollback")).state is CommandState.PENDING
    shared.is_held = False
    shared.settle()
    done = command(one, say("rollback"))
    assert (done.state, done.changed) == (CommandState.DONE, True)
    assert (phase(one), phase(other)) == (Phase.ROLLED_BACK, Phase.ROLLED_BACK)
    assert done.move is not None
    assert done.move.said == "rollback by uid 7"


def test_of_two_commands_at_once_one_counts_and_the_other_is_judged_by_it() -> None:
    shared = SharedLog()
    one, other = shared.replica(policy=policy_of(STEPS)), shared.replica(policy=policy_of(STEPS))
    one.log.groups.write(GROUP, MOVE, shared.now, move=SETTLED)
    shared.settle()
    rolls_back, pauses = say("rollback", id="a"), say("pause", id="b", by="uid 8")
    shared.is_held = True
    assert command(one, rolls_back).state is CommandState.PENDING
    assert command(other, pauses).state is CommandState.PENDING
    shared.is_held = False
    shared.settle()
    assert (phase(one), phase(other)) == (Phase.ROLLED_BACK, Phase.ROLLED_BACK)
    assert command(one, rolls_back).changed
    refused = command(other, pauses)
    assert (refused.state, refused.text) == (
        CommandState.REFUSED,
        "it does not move; now: step 1 of 3 (1), rolled back: by uid 7",
    )


def test_while_the_log_is_away_no_command_counts() -> None:
    shared = SharedLog()
    replica = shared.replica(policy=policy_of(STEPS))
    shared.go_away()
    assert command(replica, say("rollback")).state is CommandState.UNAVAILABLE
    assert phase(replica) == ""


def test_a_command_survives_a_restart() -> None:
    shared = SharedLog()
    before = shared.replica(policy=policy_of(STEPS))
    command(before, say("rollback"))
    shared.settle()
    shared.replicas.remove(before)
    assert phase(shared.replica(policy=policy_of(STEPS))) == Phase.ROLLED_BACK


# -- the hook ----------------------------------------------------------------------------------------------------------


def hook_calls(bench: Bench) -> list[CallHook]:
    return bench.hook_calls


def test_the_hook_is_asked_before_the_first_step_and_its_veto_lets_nobody_in() -> None:
    settings = TranslatorSettings(asks_hook=True)
    bench = Bench(policy=policy_of(replace(STEPS, steps=(2,))), settings=settings, new_group=False)
    assert not is_admitted(bench)
    (asked,) = hook_calls(bench)
    assert (asked.asks, asked.group, asked.step, asked.allows) == (True, GROUP, 0, "2")
    bench._do(bench.translator.rollout.hook_answered(bench.now, GROUP, asked.number, 0, "full moon"))
    view = bench.translator.rollout.move_of(GROUP)
    assert view is not None
    assert view.text == "before step 1 of 1 (2); the hook does not let step 1 begin: full moon"
    assert not is_admitted(bench), "asked again"
    assert len(hook_calls(bench)) == 2
    bench._do(bench.translator.rollout.hook_answered(bench.now, GROUP, asked.number, 0, None))
    joined = newcomer(bench)
    bench.reply(described({"epochgate-other": (1, 5), A: (0, 5)}))
    assert bench.error(joined) == ErrorCode.MEMBER_ID_REQUIRED


def test_the_hook_is_told_that_a_move_was_rolled_back() -> None:
    bench = Bench(policy=policy_of(STEPS), settings=TranslatorSettings(asks_hook=True))
    give(bench, say("rollback", why="lag"))
    (told,) = hook_calls(bench)
    assert (told.asks, told.phase, told.why) == (False, Phase.ROLLED_BACK, "by uid 7: lag")


def test_of_two_replicas_one_asks_the_hook() -> None:
    shared = SharedLog()
    settings = TranslatorSettings(asks_hook=True)
    policy = policy_of(replace(STEPS, steps=(2,)))
    replicas = [shared.replica(policy=policy, settings=settings) for _ in range(2)]
    shared.is_held = True
    for replica in replicas:
        replica._new_group = False
        newcomer(replica)
    shared.is_held = False
    shared.settle()
    shared.settle()
    asked = [hook_calls(replica) for replica in replicas]
    assert sorted(map(len, asked)) == [0, 1]
    move = replicas[0].log.groups.of_group(GROUP)[MOVE].record.move
    assert move is not None
    assert move.hook is not None
