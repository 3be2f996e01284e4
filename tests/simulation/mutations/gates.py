"""Mutations of the gates of a move by steps: what stops it, what aborts it, and what follows."""

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from translation.member_log.group_log import GroupLog
from translation.member_log.group_records import Move, Phase
from translation.member_log.signals import GateState, GateVerdict
from translation.moving import judging
from translation.rollout import gates


def never_abort() -> AbstractContextManager[Any]:
    """Harm stops the move, and takes nothing back."""
    judge = judging.judge

    def broken(*arguments: Any, **more: Any) -> GateVerdict:
        verdict = judge(*arguments, **more)
        return GateVerdict(GateState.SUSPECT, verdict.why) if verdict.state is GateState.HARM else verdict

    return patch.object(judging, "judge", broken)


def tell_members_whatever_the_gates_say() -> AbstractContextManager[Any]:
    """Members are told to move while a gate is closed, a replica does not report, or others have the same harm."""
    return patch.object(GateVerdict, "may_move_members", property(lambda _: True))


def never_look_at_other_groups() -> AbstractContextManager[Any]:
    """Harm that groups have which are not moved is taken for that of the move."""
    return patch.object(gates, "_elsewhere", lambda *_: "")


def do_without_the_reports_of_others() -> AbstractContextManager[Any]:
    """A replica that does not report is not missed."""
    return patch.object(GroupLog, "alive", lambda self, *_: frozenset({self.writer}))


def leave_the_members_of_an_aborted_move_where_they_are() -> AbstractContextManager[Any]:
    """An aborted move translates nobody any more, and whoever is translated stays so."""
    return patch.object(Move, "is_rolled_back", property(lambda self: self.phase == Phase.ROLLED_BACK))


def take_what_a_step_causes_for_harm() -> AbstractContextManager[Any]:
    """The rejoins of classic members at each new target assignment count, and so do windows in which some are told."""
    totals_of = gates.totals_of

    def broken(windows: Any, _beside: int = 0) -> Any:
        return totals_of([replace(one, told=0, changes=0) for one in windows])

    return patch.object(gates, "totals_of", broken)
