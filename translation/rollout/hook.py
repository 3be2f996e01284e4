"""When the operator's hook is called before a step, and again, what it has agreed to, and which calls it gets of a
move.

The process that is to ask is the one whose record says so in the log: a compare-and-set comes before the call. A
process that ends before it has written the answer is replaced after :data:`ANSWER_MS`, so a hook may be asked twice.
"""

from collections import OrderedDict

from msgspec.structs import replace

from translation.actions import CallHook
from translation.member_log.group_log import GroupLog
from translation.member_log.group_records import LONGEST_WORDS, MOST_HOOK_CALLS, HookCall, Move, Phase
from translation.members.environment import Environment
from translation.policy.rule_cache import RuleCache

ANSWER_MS = 60_000
"""By then the process that asks has written the answer, or has gone: longer than a call may take."""

_FIRST_MS = 10_000
_LONGEST_MS = 600_000
_LIMIT = 10_000
_AGREED_S = 60.0
"""So long the hook's word counts, if the step has not begun at once."""

_ENDS = frozenset({Phase.HELD, Phase.ABORTED, Phase.ROLLED_BACK})
"""The phases that the hook is told of."""


def asked_again_ms(call: HookCall) -> int:
    """When the hook may be asked again, by the log's clock: longer after each veto."""
    if not call.why:
        return call.asked_ms + ANSWER_MS
    return call.asked_ms + min(_FIRST_MS << min(call.tries - 1, 10), _LONGEST_MS)


def ask(move: Move, step: int, by: str, now_ms: int) -> Move:
    """The move with the next call in it; the same if it is not time for one."""
    call = move.hook if move.hook is not None and move.hook.step == step else None
    if call is not None and now_ms < asked_again_ms(call):
        return move
    tries = 1 if call is None else min(call.tries + 1, MOST_HOOK_CALLS)
    return replace(move, hook=HookCall(step=step, by=by, asked_ms=now_ms, tries=tries))


def vetoed(move: Move, call: HookCall, why: str) -> Move:
    """The move after a veto; the same if another call has been made since."""
    if move.hook != call:
        return move
    return replace(move, hook=replace(call, why=why[:LONGEST_WORDS] or "without a reason"))


class HookCalls:
    """The hook and the moves of all groups."""

    def __init__(self, environment: Environment, records: GroupLog, rules: RuleCache) -> None:
        self._environment = environment
        self._records = records
        self._rules = rules
        self._agreed: OrderedDict[str, tuple[int, int, float]] = OrderedDict()
        """The move and the step to which the hook has agreed, and until when that counts."""
        self._commanded: OrderedDict[str, Move] = OrderedDict()
        """The moves as they were before commands that were written here, by the command's id."""
        self._looked: OrderedDict[str, tuple[int, int]] = OrderedDict()
        """How many members a group had, and how many of them were translated, when the broker was asked last."""

    @property
    def owner(self) -> str:
        """Names this process, if it has a hook to ask before a step begins; else empty."""
        return self._records.writer_name if self._environment.settings.asks_hook else ""

    def agreed(self, group_id: str, move: Move) -> int | None:
        """The index of the step of this move to which the hook has agreed a moment ago."""
        number, step, until = self._agreed.get(group_id, (0, 0, 0.0))
        return step if number == move.number and self._environment.now < until else None

    def agrees(self, group_id: str, number: int, step: int) -> None:
        """The hook that was asked here has nothing against a step of a move."""
        self._agreed[group_id] = number, step, self._environment.now + _AGREED_S
        self._agreed.move_to_end(group_id)
        if len(self._agreed) > _LIMIT:
            self._agreed.popitem(last=False)

    def looked(self, group_id: str, members: int, translated: int) -> None:
        """The broker was asked who is in a group."""
        if self._environment.settings.asks_hook:
            self._looked[group_id] = members, translated
            self._looked.move_to_end(group_id)
            if len(self._looked) > _LIMIT:
                self._looked.popitem(last=False)

    def commanded(self, command_id: str, before: Move | None) -> None:
        """A command was written here; ``before`` is the move as it was."""
        self._commanded[command_id] = before or Move("")
        if len(self._commanded) > _LIMIT:
            self._commanded.popitem(last=False)

    def take_commanded(self, command_id: str) -> Move | None:
        """The move as it was before a command that was written here, once."""
        return self._commanded.pop(command_id, None)

    def rollout_changed(self, group_id: str, before: Move | None, after: Move) -> None:
        """What this process wrote of a move counts: tell the hook, if it has something to say or to hear."""
        if not self._environment.settings.asks_hook:
            return
        was = before or Move("")
        asks = after.hook is not None and not after.hook.why and after.hook != was.hook
        has_settled = bool(after.settled_ms) and not was.settled_ms
        has_ended = after.phase in _ENDS and after.phase != was.phase
        if not (asks or has_settled or has_ended):
            return
        rule = self._rules.written_rule_for(group_id)
        step = after.hook.step if asks and after.hook is not None else after.step
        if step >= len(rule.staged):
            return
        members, translated = self._looked.get(group_id, (None, None))
        self._environment.actions.append(
            CallHook(
                asks=asks,
                group=group_id,
                policy=self._rules.digest,
                number=after.number,
                step=step,
                steps=len(rule.staged),
                allows=str(rule.staged[step]),
                phase="settled" if has_settled else after.phase,
                why=after.why,
                members=members,
                translated=translated,
            )
        )
