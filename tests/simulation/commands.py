"""What people say about the move of the group: pause, resume, roll back and approve, at random moments.

At the end somebody lets the move go on, or rolls it back for good, and approves every step: whoever gives a command
gives it again, at any replica, until it counts.
"""

from typing import TYPE_CHECKING

from tests.simulation.wire import GROUP
from translation.member_log.group_records import Phase
from translation.moving.command_writes import CommandOutcome, CommandState
from translation.rollout.commands import Command, CommandKind

if TYPE_CHECKING:
    from tests.simulation.proxy_process import ProxyProcess
    from tests.simulation.world import World

_AGAIN_MS = 1_000
_AFTER_CALM_MS = 3_000
"""By then every process has read the policy's last change."""


class People:
    """Those who give commands."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._given = 0
        self.has_rolled_back = False
        """Whether the last command of all, which rolls the move back, counts."""
        plan = world.plan
        if plan.last_command:
            world.kernel.at(plan.calm_from_ms + _AFTER_CALM_MS, self._say_at_last)
        if plan.approval:
            world.kernel.at(plan.calm_from_ms + _AFTER_CALM_MS, self._approve_for_ever)

    def say_something(self) -> None:
        """Give a command at some replica."""
        acts = [CommandKind.PAUSE, CommandKind.RESUME, CommandKind.ROLLBACK]
        if self._world.plan.approval:
            acts += [CommandKind.APPROVE, CommandKind.APPROVE, CommandKind.APPROVE]
        kernel = self._world.kernel
        act = acts[kernel.between(0, len(acts) - 1)]
        process = self._process()
        if process is not None:
            self._give(process, act)

    def _say_at_last(self) -> None:
        act = CommandKind(self._world.plan.last_command)
        process = self._process()
        if process is not None:
            self._give(process, act)
        if not (act is CommandKind.ROLLBACK and self._is_rolled_back()):
            if act is CommandKind.RESUME and self._goes_on():
                return
            self._world.kernel.after(_AGAIN_MS, self._say_at_last)

    def _approve_for_ever(self) -> None:
        process = self._process()
        if process is not None:
            self._give(process, CommandKind.APPROVE)
        self._world.kernel.after(_AGAIN_MS, self._approve_for_ever)

    def _is_rolled_back(self) -> bool:
        return all(is_rolled_back(one) for one in self._world.processes if one.up)

    def _goes_on(self) -> bool:
        views = [one.translator.rollout.move_of(GROUP) for one in self._world.processes if one.up]
        return all(view is None or view.phase in (Phase.MOVING, Phase.AWAITING) for view in views)

    def _process(self) -> "ProxyProcess | None":
        up = [one for one in self._world.processes if one.up]
        return up[self._world.kernel.between(0, len(up) - 1)] if up else None

    def _give(self, process: "ProxyProcess", act: CommandKind) -> None:
        view = process.translator.rollout.move_of(GROUP)
        step = 0
        if act is CommandKind.APPROVE:
            if view is None or view.next_step is None:
                return
            step = view.next_step
        self._given += 1
        command = Command(
            id=f"{self._given}",
            act=act,
            group=GROUP,
            by=f"uid {self._given}",
            policy="" if view is None or act is not CommandKind.APPROVE else view.policy,
            step=step,
        )
        self._world.watch.steps.command_given(act, step)
        process.command(command, lambda outcome: self._told(process, command, outcome))

    def _told(self, process: "ProxyProcess", command: Command, outcome: CommandOutcome) -> None:
        watch = self._world.watch
        watch.note(str(process), f"is told to {command.act}: {outcome.state}, {outcome.text}")
        if outcome.state is CommandState.DONE:
            watch.count(f"commands to {command.act}")


def is_rolled_back(process: "ProxyProcess") -> bool:
    """Whether a process knows that the group's move is rolled back."""
    view = process.translator.rollout.move_of(GROUP)
    return view is not None and view.phase in (Phase.ABORTED, Phase.ROLLED_BACK)
