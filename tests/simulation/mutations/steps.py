"""Mutations of the move of a group by steps."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from translation.member_log.group_log import GroupLog
from translation.member_log.group_records import Move, Slot
from translation.member_log.outputs import Health
from translation.moving import slot_admission
from translation.policy.policy import Rule
from translation.policy.rule_cache import RuleCache
from translation.rollout import slots, step_start
from translation.rollout.moves import Moves
from translation.rollout.slots import GroupMembers


@contextmanager
def let_newcomers_in_without_a_slot() -> Iterator[None]:
    """A client that joins anew is translated whether or not a slot is free."""

    def broken(*_: Any) -> Any:
        yield from ()
        return True

    with (
        patch.object(slot_admission.SlotAdmission, "_admit", broken),
        patch.object(Moves, "may_begin", lambda *_: True),
    ):
        yield


def give_out_more_slots_than_the_step_has() -> AbstractContextManager[Any]:
    """A free slot is taken whatever its number is."""
    next_slot = slot_admission.next_slot

    def broken(held: Mapping[int, Slot], group_members: GroupMembers, quota: int) -> int | None:
        return next_slot(held, group_members, quota + 9)

    return patch.object(slot_admission, "next_slot", broken)


def do_not_count_members_without_a_slot() -> AbstractContextManager[Any]:
    """Members that were translated before a restart, or before the policy had steps, do not count."""

    def broken(held: Mapping[int, Slot], _census: GroupMembers, quota: int) -> int | None:
        return next((number for number in range(1, quota + 1) if number not in held), None)

    return patch.object(slot_admission, "next_slot", broken)


def give_a_slot_to_somebody_else_while_its_member_joins() -> AbstractContextManager[Any]:
    """A slot whose member the broker does not describe is free at once, and its member joins all the same."""

    @contextmanager
    def broken() -> Iterator[None]:
        with (
            patch.object(slots, "CLAIM_MS", -1),
            patch.object(Moves, "may_begin", lambda *_: True),
        ):
            yield

    return broken()


def convert_a_group_again_that_its_last_translated_member_has_left() -> AbstractContextManager[Any]:
    """Whoever joins next converts the group once more."""
    return patch.object(Moves, "was_converted", lambda *_: False)


def begin_the_next_step_at_once() -> AbstractContextManager[Any]:
    """The next step begins although the one before has not been held."""
    decide = slot_admission.decide

    def broken(move: Move, rule: Rule, signals: Any) -> Move:
        after = decide(move, rule, signals)
        is_last = after.step + 1 >= len(rule.staged)
        if after.is_moving and not is_last:
            return Move(after.steps, number=after.number, step=after.step + 1, converted=after.converted)
        return after

    return patch.object(slot_admission, "decide", broken)


def never_begin_the_next_step() -> AbstractContextManager[Any]:
    """A step that has settled is held for ever."""
    decide = slot_admission.decide

    def broken(move: Move, rule: Rule, signals: Any) -> Move:
        after = decide(move, rule, signals)
        return after if after.step == move.step else move

    return patch.object(slot_admission, "decide", broken)


def keep_the_slots_of_members_that_are_gone() -> AbstractContextManager[Any]:
    """A slot whose member has left is never free again."""

    def broken(found: Mapping[int, Any], *_: Any) -> dict[int, Slot]:
        return {number: one.record.slot for number, one in found.items() if one.record.slot.member_id}

    return patch.object(slot_admission, "taken", broken)


def take_no_notice_of_a_rollback() -> AbstractContextManager[Any]:
    """A group whose move is rolled back goes on to be translated."""
    return patch.object(Moves, "_note_rolled_back", lambda *_: None)


def begin_a_membership_after_a_rollback() -> AbstractContextManager[Any]:
    """A client that had a slot before the move was rolled back is made a member of the new protocol after it."""
    return patch.object(Moves, "may_begin", lambda *_: True)


def begin_a_step_without_its_approval() -> AbstractContextManager[Any]:
    """The next step begins although nobody has approved it."""
    return patch.object(step_start, "is_approved", lambda *_: True)


def keep_a_group_rolled_back_for_ever() -> AbstractContextManager[Any]:
    """A group that was rolled back stays classic, although somebody has said that its move is to go on."""
    set_rolled_back = RuleCache.set_rolled_back

    def broken(self: RuleCache, group_id: str, rolled_back: bool) -> bool:
        return rolled_back and set_rolled_back(self, group_id, rolled_back)

    return patch.object(RuleCache, "set_rolled_back", broken)


# -- with a member log -------------------------------------------------------------------------------------------------


@contextmanager
def take_a_slot_without_reading_it_back() -> Iterator[None]:
    """A slot counts as taken as soon as it is written."""

    def broken(self: Any, group_id: str, number: int, slot: Slot) -> Any:
        yield from ()
        name = slot_admission.slot_name(number)
        return self._moves.records.write(group_id, name, self._environment.now, slot=slot) is not None

    with (
        patch.object(slot_admission.SlotAdmission, "_take", broken),
        patch.object(Moves, "may_begin", lambda *_: True),
    ):
        yield


@contextmanager
def count_for_oneself_while_the_log_is_away() -> Iterator[None]:
    """Members are let in while nothing can be written."""
    admission = slot_admission.SlotAdmission
    present_move, take = admission._present_move, admission._take

    def move(self: Any, group_id: str, rule: Rule) -> Any:
        found = yield from present_move(self, group_id, rule)
        return found or self._moves.move(group_id, rule)

    def slot(self: Any, group_id: str, number: int, slot: Slot) -> Any:
        found = yield from take(self, group_id, number, slot)
        return found or not self._moves.records.is_ready(group_id)

    with (
        patch.object(admission, "_present_move", move),
        patch.object(admission, "_take", slot),
        patch.object(Moves, "may_begin", lambda *_: True),
    ):
        yield


def write_slots_while_the_log_is_away() -> AbstractContextManager[Any]:
    """Records of groups are written whatever is known of the log."""
    write = GroupLog.write

    def broken(self: GroupLog, group_id: str, *arguments: Any, **more: Any) -> Any:
        state = self._partition(group_id)
        health, state.health = state.health, Health.READY
        try:
            return write(self, group_id, *arguments, **more)
        finally:
            state.health = health

    return patch.object(GroupLog, "write", broken)
