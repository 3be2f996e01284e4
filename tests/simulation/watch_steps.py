"""Invariant 9: of a group that moves by steps no more members are translated than its step allows.

Judged at the broker, when it accepts the first heartbeat of a membership, by what is known from outside: when each
process read which steps, and how many members the broker has had. Nothing here looks at slots or records.

* A step is reached at the earliest when all steps before it could have been held, counted from when the first process
  read these steps.
* A share is one of the largest number of members that the broker had while the client may have been on its way: since
  its slot was taken it had :data:`ON_ITS_WAY_MS` to join.
* A client that is translated already may begin anew under its id, and in the place of its instance id.
* A process without a member log that starts again takes members with an id of a native client's form for native ones
  (:mod:`translation.members.member_ids`), and relays the calls of their clients: the broker answers UNKNOWN_MEMBER_ID,
  or makes them classic members. No client is translated under such an id any more, so it does not count.
* After the last translated member has left a group with classic members, none is translated by the same steps, unless
  somebody lets the move go on.
* No step begins that nobody has approved, where approvals are required.
* A process that has read that the move is rolled back begins no membership, and tells no classic member to join.

In the end as many are translated as the last step allows, if nothing stands in the way that the broker decides.
"""

import re
from collections import deque
from typing import TYPE_CHECKING, Any

from protocol_codecs import ApiKey, ErrorCode
from tests.simulation.clients.habits import LIBRDKAFKA
from tests.simulation.commands import is_rolled_back
from tests.simulation.violation import Violation
from tests.simulation.wire import GROUP
from translation.actions import Call, Emit, EventKind
from translation.members.conversion import is_helper
from translation.members.member_ids import may_be_translated
from translation.policy.policy import Approval, Mode, Rule
from translation.policy.steps import parse_steps
from translation.rollout.commands import CommandKind
from translation.rollout.wave_counts import WaveState

if TYPE_CHECKING:
    from tests.simulation.proxy_process import ProxyProcess
    from tests.simulation.watch import Watch

ON_ITS_WAY_MS = 90_000
"""A slot is kept for a minute for a client that has not joined, by the log's clock, which moves every half a minute."""

KNOWN_AFTER_MS = 10_000
"""By then a classic member has heartbeated, and whoever served it has asked the broker who is in the group."""


_A_STEP = re.compile(r"step (\d+) of \d+ \([^)]*\)$")
"""How a process says that a step has begun."""


class StepWatch:
    """Who is translated, by the broker's own state."""

    def __init__(self, watch: "Watch") -> None:
        self._watch = watch
        self._sizes: deque[tuple[int, int]] = deque()
        """How many members the broker has had, and when, largest first kept."""
        self._read: list[tuple[int, ProxyProcess, Rule]] = []
        """Which rule each process has read, and when."""
        self._began: set[str] = set()
        """Ids under which a membership of the new protocol has begun."""
        self._instances: dict[str, str] = {}
        self.jumped_ms = 0
        """How much the clocks of processes have jumped: a process without a log holds a step by its own."""
        self._since_ms = 0
        """Since when no process has read other steps."""
        self._is_converted = False
        """Whether a member was translated by these steps, or has been for so long that every replica knows."""
        self._may_be_held = False
        """Whether the broker may have made it a classic group again since then."""
        self._is_held = False
        """Whether it has, by all that is known."""
        self._approved: set[int] = set()
        """The steps that somebody has approved."""
        self._may_be_resumed = False
        """Whether somebody has said that the move is to go on."""

    def read_policy(self, process: "ProxyProcess") -> None:
        """A process starts, or reads its policy."""
        rule, now_ms = process.policy.rules[0], self._watch.kernel.now_ms
        before = [one for _, whose, one in self._read if whose is process]
        self._read.append((now_ms, process, rule))
        is_same = before and (before[-1].mode, before[-1].steps) == (rule.mode, rule.steps)
        # Without a log the process that starts has forgotten its moves.
        if not is_same or (process.policy_read_ms == process.started_ms and process.member_log is None):
            self._since_ms = now_ms
            self._is_converted = self._may_be_held = self._is_held = False
        if process.policy_read_ms == process.started_ms and process.member_log is None:
            self._began = {one for one in self._began if may_be_translated(one)}

    def command_given(self, act: CommandKind, step: int) -> None:
        """Somebody gives a command. When it counts is not known here."""
        if act is CommandKind.RESUME:
            self._may_be_resumed = True
        if act is CommandKind.APPROVE:
            self._approved.add(step)

    def acted(self, process: "ProxyProcess", action: Any) -> None:
        """A process calls the broker, or says what it does."""
        if isinstance(action, Call) and action.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT:
            message = action.message
            if not self._begins(message) or message.member_id in self._began:
                return
            if message.member_epoch > 0 and message.group_id == GROUP:
                self._watch.count("members converted by steps")
                self._watch.gates.member_switches(process)
            if message.group_id == GROUP and is_rolled_back(process):
                raise Violation(
                    9, f"{process} begins {message.member_id}, and knows that the move is rolled back"
                )
        elif isinstance(action, Emit) and action.event.kind is EventKind.STEP_CHANGED:
            begins = _A_STEP.match(action.event.reason)
            rule = process.policy.rules[0]
            if begins and rule.approval is Approval.REQUIRED and int(begins[1]) not in self._approved:
                raise Violation(9, f"{process} begins step {begins[1]}, which nobody has approved")
        elif isinstance(action, Emit) and action.event.reason.startswith("told to join the new protocol"):
            self._watch.count("members told")
            if action.event.group_id == GROUP and is_rolled_back(process):
                raise Violation(
                    9, f"{process} tells a member to join, and knows that the move is rolled back"
                )

    def look(self) -> None:
        """Look at the broker's group: how large it is, and whether it has become a classic one."""
        now_ms, size = self._watch.kernel.now_ms, len(self._members())
        while self._sizes and self._sizes[-1][1] <= size:
            self._sizes.pop()
        self._sizes.append((now_ms, size))
        self._watch.gates.look()
        if any(self._lacks_log(process) for _, process, _ in self._read):
            self._since_ms = now_ms  # nothing is known while the log can't be written or read
        if self._translated() and now_ms - self._since_ms > KNOWN_AFTER_MS:
            self._is_converted = True
        if not size:
            self._is_converted = False  # who comes now begins anew
        if self._began and self._watch.broker.group is None and size:
            self._may_be_held = True
            self._is_held = self._is_held or self._is_converted

    def _lacks_log(self, process: "ProxyProcess") -> bool:
        """Whether a replica can't read or write the member log now."""
        way = process.member_log
        until_ms = -1 if way is None else max(way.cannot_read_until_ms, way.cannot_write_until_ms)
        return process.up and until_ms > self._watch.kernel.now_ms

    def _members(self) -> set[str]:
        """The members of the broker's group, without helpers."""
        return {one for one in self._watch.broker.members() if not is_helper(one)}

    @staticmethod
    def _begins(message: Any) -> bool:
        """Whether a heartbeat begins a membership of the new protocol, or converts a classic member: a full one."""
        is_full = message.subscribed_topic_names is not None
        return (message.member_epoch == 0 or is_full) and not is_helper(message.member_id)

    def translated(self) -> frozenset[str]:
        """The members that are translated now."""
        return self._translated()

    def _translated(self) -> frozenset[str]:
        group = self._watch.broker.group
        if group is None:
            return frozenset()
        return frozenset(
            member_id
            for member_id, member in group.members.items()
            if not member.uses_classic_protocol and member_id in self._began
        )

    def heartbeat_served(self, message: Any, response: Any) -> None:
        """The broker has answered a heartbeat."""
        if not self._begins(message) or response.error_code != ErrorCode.NONE:
            return
        standing = self._watch.client_of.get(message.member_id)
        if standing is not None and getattr(standing.client, "habits", None) is None:
            return
        before = self._translated()
        replaces = message.instance_id is not None and message.instance_id in self._instances
        is_new = message.member_id not in self._began and not replaces
        self._began.add(message.member_id)
        if message.instance_id is not None:
            self._instances[message.instance_id] = message.member_id
        # A group without members has nobody whom it could convert: only one with classic members is held.
        is_first = self._members() <= {message.member_id}
        may_convert = is_first or self._may_be_resumed or not self._is_held
        self._is_converted = self._is_converted or is_new
        allowed = self._allowed()
        if not is_new or allowed is None:
            return
        self._watch.count("members translated by steps")
        if len(before) + 1 > allowed:
            raise Violation(
                9, f"{message.member_id} is translated beside {sorted(before)}, and the step allows {allowed}"
            )
        if not before and not may_convert:
            raise Violation(9, f"{message.member_id} converts the group again")

    def _allowed(self) -> int | None:
        """How many may be translated now, at most; None if a process did not go by steps a moment ago."""
        now_ms = self._watch.kernel.now_ms
        while len(self._sizes) > 1 and self._sizes[1][0] < now_ms - ON_ITS_WAY_MS:
            self._sizes.popleft()
        size = max(size for _, size in self._sizes) + 1
        found = 0
        for (written, hold_s), since_ms in self._in_force().items():
            if written is None:
                return None
            steps = parse_steps(written)
            held = (now_ms + self.jumped_ms - since_ms) // (hold_s * 1000) if hold_s else len(steps)
            reached = steps[: held + 1]
            if any(step.is_all for step in reached):
                return None
            found = max(found, *(step.quota(size) for step in reached))
        return found

    def _in_force(self) -> dict[tuple[tuple[int | str, ...] | None, int], int]:
        """The steps by which a process translates, or did while a client may have been on its way, and since when."""
        now_ms, found = self._watch.kernel.now_ms, dict[tuple[tuple[int | str, ...] | None, int], int]()
        for at_ms, process, rule in self._read:
            until_ms = next((t for t, whose, _ in self._read if whose is process and t > at_ms), now_ms)
            if rule.mode is Mode.TRANSLATE:
                found.setdefault((rule.steps, rule.hold_s), at_ms)
                if until_ms < now_ms - ON_ITS_WAY_MS:
                    found.pop((rule.steps, rule.hold_s))
        return found

    def why_not_settled(self) -> str | None:
        """Why not as many are translated in the end as the last step allows."""
        rule = self._read[-1][2]
        clients = [one.client for one in self._watch.standings.values() if one.client.alive]
        if rule.mode is not Mode.TRANSLATE or not rule.steps:
            return None
        if self._watch.gates.aborted_ms:
            return f"{sorted(self._translated())} are translated still" if self._translated() else None
        if self._may_be_held or self._watch.gates.stops_for_good:
            return None
        if all(is_rolled_back(process) for process in {process for _, process, _ in self._read}):
            return None
        if any(getattr(one, "habits", None) in (None, LIBRDKAFKA) for one in clients):
            return None  # the assignments of librdkafka's have user data: such a group moves as a whole, or not at all
        wanted = min(len(clients), parse_steps(rule.steps)[-1].quota(len(clients)))
        translated = self._translated()
        if len(translated) < wanted:
            return f"{len(translated)} of {len(clients)} members are translated, and the step allows {wanted}"
        return self._why_not_over() if rule.wave is not None and translated else None

    def _why_not_over(self) -> str | None:
        """Why the wave of the group is not over for a process that serves it."""
        for process in {whose: None for _, whose, _ in self._read if whose.up}:
            (count,) = process.translator.rollout.waves()
            if not count.groups.get(WaveState.OVER):
                return f"{process} knows of the wave: {dict(count.groups)}"
        return None
