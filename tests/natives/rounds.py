"""The script of a seed, and how it is run.

Each round somebody joins, is killed, leaves, restarts with its instance id, or everybody is idle for longer than the
broker's session; through the proxy the policy changes too, from `translate` to `observe` or back. Records flow while it
happens, but for a change of the policy: that ends classic memberships, and what such a client has read and not
committed is read again. Afterwards everything that was produced is read and committed before the next round.
"""

import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from support.broker import Kafka
from support.consumers import ConsumerProcess
from support.load import Load
from support.native_group import CLASSIC, NATIVES, STRAIGHT, MemberKind, NativeGroup, Outcome
from support.waiting import stays

from tools.kafka.settings import CONSUMER_SESSION_TIMEOUT_MS

LARGEST = 6
"""Members at once: one for each partition."""

FEWEST = 2

IDLE_S = 1.5 * CONSUMER_SESSION_TIMEOUT_MS / 1000

KINDS = (*map(MemberKind, NATIVES), *map(MemberKind, NATIVES), *CLASSIC, STRAIGHT)
"""Who joins is drawn from these: two of three are native."""


class Action(StrEnum):
    """What happens in a round."""

    JOIN = "join"
    KILL = "kill"
    LEAVE = "leave"
    RESTART = "restart"
    """Close a static native member and start it again under its instance id."""
    IDLE = "idle"
    SWITCH = "switch"


WEIGHTS = {
    Action.JOIN: 4,
    Action.KILL: 3,
    Action.LEAVE: 2,
    Action.RESTART: 2,
    Action.IDLE: 1,
    Action.SWITCH: 1,
}


@dataclass(frozen=True)
class Step:
    """One round. Members are numbered as they join; who restarts has a new number."""

    action: Action
    member: int = -1
    kind: MemberKind | None = None
    instance_id: str | None = None

    def __str__(self) -> str:
        """For the log of a run."""
        who = f" {self.member}" if self.member >= 0 else ""
        return f"{self.action}{who}{f' as {self.kind}' if self.kind else ''}"


@dataclass
class _Members:
    """The members at one moment of a script that is being made."""

    kinds: dict[int, MemberKind] = field(default_factory=dict)
    static: dict[int, str] = field(default_factory=dict)
    joined: int = 0

    def join(self, kind: MemberKind, instance_id: str | None) -> Step:
        member, self.joined = self.joined, self.joined + 1
        self.kinds[member] = kind
        if instance_id is not None:
            self.static[member] = instance_id
        return Step(Action.JOIN, member, kind, instance_id)

    def leave(self, member: int) -> None:
        del self.kinds[member]
        self.static.pop(member, None)

    def may_go(self) -> list[int]:
        """Dynamic members, of whom a native one always stays."""
        natives = [member for member, kind in self.kinds.items() if kind.native]
        return [
            member
            for member, kind in self.kinds.items()
            if member not in self.static and (not kind.native or len(natives) > 1)
        ]


def script(seed: int, rounds: int) -> list[Step]:
    """The same for the same arguments: each native library and a classic member join first, then so many rounds."""
    rng = random.Random(seed)  # noqa: S311 - a test's own choices
    members = _Members()
    steps = [
        members.join(MemberKind(client), "static" if client is NATIVES[seed % 3] else None)
        for client in NATIVES
    ]
    steps.append(members.join(CLASSIC[seed % 2], None))
    while rounds:
        action = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        step = _step(action, members, rng)
        if step is not None:
            steps.append(step)
            rounds -= 1
    return steps


def _step(action: Action, members: _Members, rng: random.Random) -> Step | None:
    """None if it can't be now."""
    match action:
        case Action.JOIN if len(members.kinds) < LARGEST:
            return members.join(rng.choice(KINDS), None)
        case Action.KILL | Action.LEAVE if members.may_go() and len(members.kinds) > FEWEST:
            member = rng.choice(members.may_go())
            members.leave(member)
            return Step(action, member)
        case Action.RESTART:
            member, instance_id = next(iter(members.static.items()))
            kind = members.kinds[member]
            members.leave(member)
            return Step(action, member, members.join(kind, instance_id).kind, instance_id)
        case Action.IDLE | Action.SWITCH:
            return Step(action)
    return None


def run_steps(
    kafka: Kafka,
    group: NativeGroup,
    steps: list[Step],
    *,
    switch: Callable[[str], None],
    say: Callable[[str], None] = lambda _line: None,
) -> Outcome:
    """Run them. `switch` is given the next mode of the policy. Raises AssertionError if a round does not end."""
    members: list[ConsumerProcess] = []
    mode = "translate"
    for number, step in enumerate(steps):
        say(f"{number}: {step}")
        quiet = step.action in (Action.SWITCH, Action.IDLE)
        with contextlib.ExitStack() as stack:
            if not quiet:
                load = Load(kafka, group.topic)
                stack.callback(lambda load=load: group.records.extend(load.records))  # when it has ended
                stack.enter_context(load)
            match step.action:
                case Action.JOIN:
                    assert step.kind is not None
                    members.append(group.join(step.kind, instance_id=step.instance_id))
                case Action.KILL:
                    group.kill(members[step.member])
                case Action.LEAVE:
                    group.leave(members[step.member])
                case Action.RESTART:
                    assert step.kind is not None
                    group.leave(members[step.member], settle=False)
                    members.append(group.join(step.kind, instance_id=step.instance_id))
                case Action.IDLE:
                    stays(group.shared, what="everybody keeps its partitions", for_s=IDLE_S)
                case Action.SWITCH:
                    mode = "observe" if mode == "translate" else "translate"
                    switch(mode)
        group.wait_for_commits()
    return group.outcome()
