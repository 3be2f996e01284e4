"""The script of a seed, and its performance.

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
from support.native_group import CLASSIC, NATIVES, STRAIGHT, NativeGroup, Outcome, Role
from support.waiting import stays

from tools.kafka.settings import CONSUMER_SESSION_TIMEOUT_MS

LARGEST = 6
"""Members at once: one for each partition."""

IDLE_S = 1.5 * CONSUMER_SESSION_TIMEOUT_MS / 1000

ROLES = (*map(Role, NATIVES), *map(Role, NATIVES), *CLASSIC, STRAIGHT)
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
    role: Role | None = None
    instance_id: str | None = None

    def __str__(self) -> str:
        """For the log of a run."""
        who = f" {self.member}" if self.member >= 0 else ""
        return f"{self.action}{who}{f' as {self.role}' if self.role else ''}"


@dataclass
class _Cast:
    """Who is in the group while a script is made."""

    roles: dict[int, Role] = field(default_factory=dict)
    static: dict[int, str] = field(default_factory=dict)
    joined: int = 0

    def join(self, role: Role, instance_id: str | None) -> Step:
        member, self.joined = self.joined, self.joined + 1
        self.roles[member] = role
        if instance_id is not None:
            self.static[member] = instance_id
        return Step(Action.JOIN, member, role, instance_id)

    def leave(self, member: int) -> None:
        del self.roles[member]
        self.static.pop(member, None)

    def may_go(self) -> list[int]:
        """Dynamic members, of whom a native one always stays."""
        natives = [member for member, role in self.roles.items() if role.native]
        return [
            member
            for member, role in self.roles.items()
            if member not in self.static and (not role.native or len(natives) > 1)
        ]


def script(seed: int, rounds: int) -> list[Step]:
    """The same for the same arguments: each native library and a classic member join first, then so many rounds."""
    dice = random.Random(seed)
    cast = _Cast()
    steps = [cast.join(Role(client), "static" if client is NATIVES[seed % 3] else None) for client in NATIVES]
    steps.append(cast.join(CLASSIC[seed % 2], None))
    while rounds:
        action = dice.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        step = _step(action, cast, dice)
        if step is not None:
            steps.append(step)
            rounds -= 1
    return steps


def _step(action: Action, cast: _Cast, dice: random.Random) -> Step | None:
    """None if it can't be now."""
    match action:
        case Action.JOIN if len(cast.roles) < LARGEST:
            return cast.join(dice.choice(ROLES), None)
        case Action.KILL | Action.LEAVE if cast.may_go() and len(cast.roles) > 2:  # noqa: PLR2004 - so that one can take over
            member = dice.choice(cast.may_go())
            cast.leave(member)
            return Step(action, member)
        case Action.RESTART:
            member, instance_id = next(iter(cast.static.items()))
            role = cast.roles[member]
            cast.leave(member)
            return Step(action, member, cast.join(role, instance_id).role, instance_id)
        case Action.IDLE | Action.SWITCH:
            return Step(action)
    return None


def play(
    kafka: Kafka,
    group: NativeGroup,
    steps: list[Step],
    *,
    switch: Callable[[str], None],
    say: Callable[[str], None] = lambda _line: None,
) -> Outcome:
    """Perform it. `switch` is given the next mode of the policy. Raises AssertionError if a round does not end."""
    members: list[ConsumerProcess] = []
    mode = "translate"
    for number, step in enumerate(steps):
        say(f"{number}: {step}")
        quiet = step.action in (Action.SWITCH, Action.IDLE)
        with contextlib.ExitStack() as stack:
            if not quiet:
                load = stack.enter_context(Load(kafka, group.topic))
                stack.callback(lambda load=load: group.records.extend(load.records))
            match step.action:
                case Action.JOIN:
                    assert step.role is not None
                    members.append(group.join(step.role, instance_id=step.instance_id))
                case Action.KILL:
                    group.kill(members[step.member])
                case Action.LEAVE:
                    group.leave(members[step.member])
                case Action.RESTART:
                    assert step.role is not None
                    group.leave(members[step.member], settle=False)
                    members.append(group.join(step.role, instance_id=step.instance_id))
                case Action.IDLE:
                    stays(group.shared, what="everybody keeps its partitions", for_s=IDLE_S)
                case Action.SWITCH:
                    mode = "observe" if mode == "translate" else "translate"
                    switch(mode)
        group.wait_for_commits()
    return group.outcome()
