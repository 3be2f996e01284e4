"""Plays traces of ``Translation.tla`` on the real translation and the embedded coordinator, step by step.

After each step the state of the code, seen as a state of the model, has to be the model's: the group at the broker,
what each client has, and what each proxy knows of it. ``Replay.tla`` says which behaviours of the model are played;
docs/evidence/formal-model.md what each step is for the code.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from coordinator.classic_groups.group import ClassicGroup, ClassicGroupState
from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_protocol import decode_assignment
from protocol_codecs.messages.heartbeat import HeartbeatRequest
from protocol_codecs.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.formal.stage import TOPIC, Asked, Line, Stage
from tests.formal.traces import Setting, State, Trace, draw
from tests.simulation.clients.habits import JAVA_COOPERATIVE, JAVA_EAGER, Habits
from tests.simulation.clients.speech import join_request, read_assignment, write_assignment
from tests.simulation.wire import GROUP
from translation.members.conversion import is_helper
from translation.members.member import Member
from translation.policy.policy import Mode

NOTHING: frozenset[int] = frozenset()

ONLY_OF_MUTATIONS = frozenset({"EndAtTheFormerProxy"})
"""Actions of the model that happen only where a rule is left out."""

NOT_PLAYED = frozenset({"BeginCommit", "EndCommit", "LoseHelper", "HelperStandsIn"})
"""Calls that cross others, the end of a proxy, and what precedes a session that a proxy ends."""

ACTIONS = frozenset(
    {
        "JoinClassicGroup", "CompleteClassicRebalance", "JoinAsClassic", "SyncAsClassic", "HeartbeatAsClassic",
        "HelperConverts", "ConvertMember", "LoseConversion", "RepeatConversion", "AskToRejoin", "HelperBeats",
        "HelperLeaves", "JoinAsNew", "AskToGoBack", "HelperJoins", "JoinBack", "HeartbeatAsNew", "KeepAlive",
        "RejoinAsNew", "SyncAsNew", "Adopt", "AdoptAgain", "Reconnect", "LoseResponse", "Die", "ExpireSession",
        "StartAgain", "ChangePolicy",
    }
)  # fmt: skip
"""The others."""

_SESSION_MS, _REBALANCE_MS = 30_000, 60_000
_JOIN_TRIES = 3
"""JoinGroups of one client in a row: without an id, with it, and with another one."""
_HELPER_TRIES = 3
"""Heartbeats of the helper in a row: members may vote, they have voted, it has left."""


class Divergence(AssertionError):
    """The code is in another state than the model after the same steps."""


class _Client:
    """A classic client: it makes one call when it is told to, and does with the answer what all libraries do."""

    def __init__(self, name: str, line: Line) -> None:
        self.name = name
        self.line = line
        self.phase = "out"
        self.member_id = ""
        self.generation = -1
        self.counted = 0
        """Its generation as the model counts it."""
        self.is_new_generation = False
        self.owned = NOTHING
        self.join: Asked | None = None
        self.protocol: str | None = None

    def loses_partitions(self) -> None:
        """Its generation is refused: it joins again under its member id."""
        self.phase, self.generation, self.counted, self.owned = "told", -1, 0, NOTHING

    def loses_all(self) -> None:
        """Its membership is over."""
        self.phase, self.member_id, self.generation = "out", "", -1
        self.counted, self.owned = 0, NOTHING
        self.is_new_generation = False


class Player:
    """Plays one trace."""

    def __init__(self, setting: Setting, trace: Trace) -> None:
        self._trace = trace
        first = trace[0].of
        self._habits: Habits = JAVA_COOPERATIVE if setting.cooperative else JAVA_EAGER
        self._numbers = {"p1": 0, "p2": 1}
        self.stage = Stage(tuple(sorted(first["policy"])), len(self._numbers))
        self._clients = {
            name: _Client(name, self.stage.connect(name, proxy))
            for name, proxy in sorted(first["via"].items())
        }
        self._ids: dict[str, str] = {}
        self._epochs_before = 0
        """The model counts on where the broker begins anew, with a new group in the place of an empty one."""
        self._was_empty = True
        """Whether the group was empty since the states were compared last."""
        self._before = trace[0]
        self._now = trace[0]

    def play(self) -> Counter[str]:
        """Play all steps, and return how often each action was played.

        :raises Divergence: after one of them the code is in another state.
        """
        played: Counter[str] = Counter()
        with self.stage.opened():
            for number, state in enumerate(self._trace[1:], start=1):
                self._before, self._now = self._now, state
                try:
                    self._play()
                    self._hear_of_joins()
                    self.stage.end_conversions_without_a_helper()
                    self._was_empty |= "empty" in {self._before.of["type"], state.of["type"]}
                    if not _is_in_a_call(state):
                        self._compare()
                except (AssertionError, LookupError, ValueError) as error:
                    story = " > ".join(
                        f"{one.step} {one.whose}".strip() for one in self._trace[1 : number + 1]
                    )
                    raise Divergence(f"step {number}: {error}\n{story}") from error
                played[state.step] += 1
        return played

    # -- steps -----------------------------------------------------------------------------------------------------

    def _play(self) -> None:
        step, whose = self._now.step, self._now.whose
        if step == "CompleteClassicRebalance":
            self._lead()
            return
        if step == "ChangePolicy":
            self.stage.set_mode(whose, Mode(self._now.of["policy"][whose]))
            return
        if step in {"HelperBeats", "HelperLeaves"}:
            self._helper(is_to_leave=step == "HelperLeaves")
            return
        client = self._clients[whose]
        steps: Mapping[str, Callable[[_Client], None]] = {
            **dict.fromkeys(
                ("JoinClassicGroup", "JoinAsClassic", "JoinAsNew", "RejoinAsNew", "JoinBack"), self._join
            ),
            "SyncAsClassic": self._sync,
            "SyncAsNew": self._sync,
            **dict.fromkeys(
                (
                    "HeartbeatAsClassic",
                    "HeartbeatAsNew",
                    "Adopt",
                    "AdoptAgain",
                    "ConvertMember",
                    "RepeatConversion",
                    "AskToRejoin",
                    "AskToGoBack",
                ),
                self._heartbeat,
            ),
            # A part of the call that comes, unless the conversion ends with it.
            "HelperConverts": _nothing if self._now.of["calling"] else self._heartbeat,
            "HelperJoins": _nothing,
            "LoseConversion": self._lose_response,
            "KeepAlive": self._keep_alive,
            "LoseResponse": self._lose_response,
            "Reconnect": self._reconnect,
            "Die": self._die,
            "ExpireSession": self._expire_session,
            "StartAgain": self._start_again,
        }
        steps[step](client)

    def _aim(self) -> None:
        """If a target assignment is computed next, it is the model's."""
        self.stage.target = {
            self._ids[name]: self._partitions(self._now.of["target"][name])
            for name in self._now.of["mem"]
            if name in self._ids
        }

    def _partitions(self, names: frozenset[str]) -> frozenset[int]:
        return frozenset(self._numbers[name] for name in names)

    def _join(self, client: _Client) -> None:
        if not self._habits.cooperative:
            client.owned = NOTHING
        client.phase = "waiting"
        for _ in range(_JOIN_TRIES):
            if client.member_id:
                self._ids[client.name] = client.member_id
            self._aim()
            request = join_request(
                self._habits,
                member_id=client.member_id,
                instance_id=None,
                generation=client.generation,
                topics=(TOPIC,),
                claims=((TOPIC, number) for number in client.owned),
                session_timeout_ms=_SESSION_MS,
                rebalance_timeout_ms=_REBALANCE_MS,
            )
            client.join = self._ask(client, ApiKey.JOIN_GROUP, self._habits.join_version, request)
            response = client.join.response
            if response is None or response.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                return
            client.member_id = response.member_id

    def _hear_of_joins(self) -> None:
        """Take the answers to JoinGroups that have come."""
        for client in self._clients.values():
            if client.join is None or client.join.response is None:
                continue
            response, client.join = client.join.response, None
            assert response.error_code == ErrorCode.NONE, (
                f"JoinGroup of {client.name} was answered {response}"
            )
            client.phase = "joined"
            client.member_id, client.generation = response.member_id, response.generation_id
            client.protocol = response.protocol_name
            client.is_new_generation = True

    def _lead(self) -> None:
        """Let the leader share out the partitions. Its own SyncGroup is repeated when the trace says so."""
        self._hear_of_joins()
        group = self.stage.group
        assert isinstance(group, ClassicGroup), f"no classic group but {group}"
        leader = next(client for client in self._clients.values() if client.member_id == group.leader_id)
        assigned = self._now.of["assigned"]
        self._ask_sync(
            leader,
            tuple(
                SyncGroupRequestAssignment(
                    member_id=self._ids[name],
                    assignment=write_assignment(
                        (TOPIC, number) for number in self._partitions(assigned[name])
                    ),
                )
                for name in sorted(self._now.of["mem"])
            ),
        )

    def _ask_sync(self, client: _Client, assignments: tuple[SyncGroupRequestAssignment, ...] = ()) -> Any:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=client.generation,
            member_id=client.member_id,
            protocol_type="consumer",
            protocol_name=client.protocol,
            assignments=assignments,
        )
        return self._ask(client, ApiKey.SYNC_GROUP, self._habits.sync_version, request).response

    def _sync(self, client: _Client) -> None:
        response = self._ask_sync(client)
        if response.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            client.phase = "told"
            return
        if response.error_code == ErrorCode.ILLEGAL_GENERATION:
            client.loses_partitions()
            return
        assert response.error_code == ErrorCode.NONE, f"SyncGroup was answered {response}"
        assigned = frozenset(number for _, number in read_assignment(response.assignment))
        client.phase = "stable" if client.owned <= assigned else "told"
        client.owned = assigned

    def _heartbeat(self, client: _Client) -> None:
        code = self._ask_heartbeat(client)
        member = self._member(client.name)
        if code == ErrorCode.NONE and member is not None and self._tells_of_additions(member):
            code = self._ask_heartbeat(client)
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            client.phase = "told"
        elif code == ErrorCode.ILLEGAL_GENERATION:
            client.loses_partitions()
        else:
            assert code == ErrorCode.NONE, f"Heartbeat was answered {code}"

    def _ask_heartbeat(self, client: _Client) -> int:
        self._aim()
        request = HeartbeatRequest(
            group_id=GROUP, generation_id=client.generation, member_id=client.member_id
        )
        asked = self._ask(client, ApiKey.HEARTBEAT, self._habits.heartbeat_version, request)
        return ErrorCode.NONE if asked.response is None else int(asked.response.error_code)

    def _ask(self, client: _Client, api_key: ApiKey, version: int, message: Any) -> Asked:
        return self.stage.ask(client.line, api_key, version, message)

    def _tells_of_additions(self, member: Member) -> bool:
        """Whether additions were collected for an eager client; it is told of them now."""
        if member.deadlines.addition_debounce_until == float("inf"):
            return False
        self.stage.member_time(self._now.of["via"][self._now.whose], member, keep_alive=False)
        return True

    def _helper(self, *, is_to_leave: bool) -> None:
        """Let the time come for the helper's heartbeat; until it has left, which waits for the members' votes."""
        self._aim()
        proxy = self._before.of["helperAt"]
        for _ in range(_HELPER_TRIES):
            self.stage.helper_time(proxy)
            if not is_to_leave or not self.stage.has_helper:
                return
            for name in self._clients:
                member = self.stage.member(proxy, self._ids.get(name, ""))
                if member is not None:
                    self.stage.member_time(proxy, member, keep_alive=True)

    def _keep_alive(self, client: _Client) -> None:
        self._aim()
        member = self._member(client.name)
        assert member is not None, f"the proxy has no member for {client.name}"
        self.stage.member_time(self._now.of["via"][client.name], member, keep_alive=True)
        self._tells_of_additions(member)

    def _lose_response(self, client: _Client) -> None:
        self.stage.loses_response = True
        self._ask_heartbeat(client)
        assert not self.stage.loses_response, "no heartbeat went to the broker"
        client.line = self.stage.connect(client.name, client.line.proxy)

    def _reconnect(self, client: _Client) -> None:
        self.stage.close(client.line)
        client.line = self.stage.connect(client.name, self._now.of["via"][client.name])

    def _die(self, client: _Client) -> None:
        self.stage.close(client.line)
        client.loses_all()
        client.phase = "dead"

    def _expire_session(self, client: _Client) -> None:
        (gone,) = self._before.of["mem"] - self._now.of["mem"]
        assert gone == client.name
        self.stage.end_session(self._ids[gone])

    def _start_again(self, client: _Client) -> None:
        client.line = self.stage.connect(client.name, self._now.of["via"][client.name])
        client.phase = "out"

    # -- the code's state, as the model's --------------------------------------------------------------------------

    def _member(self, name: str) -> Member | None:
        """The client's member as the proxy has it that serves the client."""
        member_id = self._ids.get(name, "")
        return self.stage.member(self._now.of["via"][name], member_id)

    def _compare(self) -> None:
        """Raise if the state of the code is another one than the model's."""
        model = self._now.of
        if self._was_empty:
            self._epochs_before = model["epoch"] - self._epoch()
            self._was_empty = False
        seen = {**self._broker(), **self._seen_clients(), **self._seen_members()}
        wrong = [
            f"{name}{'' if whose is None else f' of {whose}'} is {value!r}, in the model {expected!r}"
            for (name, whose), value in seen.items()
            if value != (expected := self._expected(name, whose))
        ]
        assert not wrong, "; ".join(wrong)

    def _expected(self, name: str, whose: Any) -> Any:
        value = self._now.of[name]
        return value if whose is None else value[whose]

    def _epoch(self) -> int:
        group = self.stage.group
        if group is None:
            return 0
        return group.generation if isinstance(group, ClassicGroup) else group.group_epoch

    def _names(self, partitions: frozenset[int]) -> frozenset[str]:
        return frozenset(name for name, number in self._numbers.items() if number in partitions)

    def _broker(self) -> dict[tuple[str, Any], Any]:
        """The broker's variables, without those that say nothing in this state."""
        group = self.stage.group
        if group is None or not group.members:
            return {("type", None): "empty", ("mem", None): frozenset()}
        whose = {member_id: name for name, member_id in self._ids.items()}
        names = {
            member_id: "helper" if is_helper(member_id) else whose[member_id] for member_id in group.members
        }
        seen: dict[tuple[str, Any], Any] = {
            ("epoch", None): self._epoch() + self._epochs_before,
            ("mem", None): frozenset(names.values()),
        }
        if isinstance(group, ClassicGroup):
            return {**seen, **self._classic_group(group, names)}
        seen["type", None] = "consumer"
        seen["tEpoch", None] = group.assignment_epoch + self._epochs_before
        seen["waiting", None] = frozenset()
        seen["new", None] = frozenset(
            name for member_id, name in names.items() if not group.members[member_id].uses_classic_protocol
        )
        for member_id, name in names.items():
            member = group.members[member_id]
            seen["mEpoch", name] = member.member_epoch + self._epochs_before
            seen["assigned", name] = self._of_topic(member.assigned)
            seen["revoking", name] = self._of_topic(member.pending_revocation)
            seen["target", name] = self._of_topic(group.target_assignment.get(member_id, {}))
        return seen

    def _of_topic(self, partitions: Mapping[Any, Any]) -> frozenset[str]:
        return self._names(frozenset(partitions.get(self.stage.topic.topic_id, ())))

    def _classic_group(self, group: ClassicGroup, names: Mapping[str, str]) -> dict[tuple[str, Any], Any]:
        prepares = group.state is ClassicGroupState.PREPARING_REBALANCE
        assert prepares or group.state is ClassicGroupState.STABLE, group.state
        seen: dict[tuple[str, Any], Any] = {
            ("type", None): "classic",
            ("new", None): frozenset(),
            ("phase", None): "Preparing" if prepares else "Stable",
            ("waiting", None): frozenset(
                name
                for member_id, name in names.items()
                if group.members[member_id].awaiting_join is not None
            ),
        }
        for member_id, name in names.items() if not prepares else ():
            _, assignment = decode_assignment(group.members[member_id].assignment)
            numbers = frozenset(n for topic in assignment.assigned_partitions for n in topic.partitions)
            seen["assigned", name] = self._names(numbers)
        return seen

    def _seen_clients(self) -> dict[tuple[str, Any], Any]:
        seen: dict[tuple[str, Any], Any] = {}
        for name, client in self._clients.items():
            if client.is_new_generation:
                client.counted = client.generation + self._epochs_before
                client.is_new_generation = False
            seen["cs", name] = client.phase
            seen["own", name] = self._names(client.owned)
            if client.phase in {"joined", "stable"}:
                seen["gen", name] = client.counted
        return seen

    def _seen_members(self) -> dict[tuple[str, Any], Any]:
        """What the proxies know of clients. What one knows of a client that has gone elsewhere does not count."""
        seen: dict[tuple[str, Any], Any] = {}
        for name in self._clients:
            if self._now.of["ps"][name] == "Absent":
                continue
            member = self._member(name)
            state = "Absent" if member is None else str(member.state)
            seen["ps", name] = state.removesuffix("Rebalance")
            if member is None:
                continue
            sets = member.partitions
            seen["known", name] = self._flat(sets.broker_assignment)
            seen["synced", name] = self._flat(sets.synced_assignment)
            seen["possibly", name] = self._flat(sets.possibly_owned)
            seen["pending", name] = self._flat(sets.pending_revocation)
            seen["lost", name] = member.broker.reply_lost
        return seen

    def _flat(self, partitions: frozenset[tuple[Any, int]]) -> frozenset[str]:
        return self._names(frozenset(number for _, number in partitions))


def _nothing(_: _Client) -> None:
    """Nothing: what the model takes for a step is a part of a call that is played elsewhere."""


def _is_in_a_call(state: State) -> bool:
    """Whether the model is in the middle of what is one call for the code."""
    of = state.of
    completes = of["type"] == "classic" and of["phase"] == "Preparing" and of["waiting"] == of["mem"]
    return completes or bool(of["calling"])


class Replayed(msgspec.Struct, frozen=True):
    """What was replayed in a setting. ``failure`` is the first divergence, None if there is none."""

    setting: Setting
    traces: int
    steps: Counter[str]
    longest: int
    failure: str | None


def replay(setting: Setting, *, traces: int, seed: int, folder: Path) -> Replayed:
    """Let TLC choose traces, and play them all."""
    return play_all(setting, draw(setting, traces=traces, seed=seed, folder=folder))


def play_all(setting: Setting, drawn: Sequence[Trace]) -> Replayed:
    """Play traces, up to the first that diverges."""
    steps: Counter[str] = Counter()
    failure = None
    for number, trace in enumerate(drawn):
        try:
            steps += Player(setting, trace).play()
        except Divergence as divergence:
            failure = f"trace {number}, {divergence}"
            break
    return Replayed(setting, len(drawn), steps, max(map(len, drawn)) - 1, failure)
