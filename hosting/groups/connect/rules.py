"""The rules of protocol type ``connect``: see :class:`hosting.groups.rules.ProtocolRules`."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from coordinator.connect_groups import formats
from coordinator.connect_groups.formats import INCREMENTAL, Difference
from coordinator.connect_groups.work import WorkSet
from coordinator.uuids import UuidSource
from hosting.groups.connect.installing import checked, owners_of, without
from hosting.groups.connect.worker import NOTHING, ConnectClient, Part, Round, WorkerOffer
from hosting.groups.member import HostedMember, JoinResult
from hosting.groups.settings import HostedSettings
from protocol_codecs.all_messages import (
    JoinGroupRequest,
    JoinGroupResponseMember,
    SyncGroupRequestAssignment,
)
from protocol_codecs.error_code import ErrorCode

CONNECT_PROTOCOL_TYPE = "connect"

_MOST_REFUSALS = 3
"""How often in a row a leader may compute what is none for its group, before another one leads."""
_FIRST_EPOCHS = 1 << 20


def is_of_eager_worker(message: JoinGroupRequest) -> bool:
    """Whether a worker joins that has only the protocol by which all workers stop (``connect.protocol=eager``)."""
    return message.protocol_type == CONNECT_PROTOCOL_TYPE and not any(
        one.name in INCREMENTAL for one in message.protocols
    )


class ConnectRules:
    """One group of workers."""

    protocol_type = CONNECT_PROTOCOL_TYPE
    goes_on_without_membership = True

    def __init__(self, settings: HostedSettings, uuids: UuidSource) -> None:
        self.clients: dict[str, ConnectClient] = {}
        self.leader_id: str | None = None
        self.installs = 0
        """How many assignments of leaders became parts, and how many were refused."""
        self.refusals = 0
        self._settings = settings
        # Leaders compare generations with those that they remember, which may be of an earlier process.
        self._epoch = int.from_bytes(uuids.next()[:4], "big") % _FIRST_EPOCHS
        self._is_stale = False
        """Whether there are news that no leader has been told."""
        self._round: Round | None = None
        self._last: Part | None = None
        """What was computed last, without what it assigns."""
        self._refused_in_a_row = 0
        self._kept: WorkSet = NOTHING
        """What workers run that have lost their connection before they knew their member id, and may come again."""
        self._kept_until_ms: int | None = None

    @property
    def kept_bytes(self) -> int:
        """See :class:`hosting.groups.rules.ProtocolRules`; so the others."""
        return self._bytes_of(self._kept) + sum(
            self._bytes_of(one.part.difference.assigned) + self._bytes_of(one.part.difference.revoked)
            for one in self.clients.values()
            if one.part is not None
        )

    def read_join(self, message: JoinGroupRequest) -> WorkerOffer | None:
        """Return what a JoinGroup brings; None if it can't be carried: static members, the eager protocol alone."""
        said = formats.read_worker(message.protocols)
        if said is None or message.group_instance_id is not None:
            return None
        names = [one.name for one in message.protocols if one.name in INCREMENTAL]
        return WorkerOffer(
            subscriptions=dict.fromkeys(names, b""),
            size=len(said.url) + self._bytes_of(said.runs),
            said=said,
        )

    def _bytes_of(self, works: WorkSet) -> int:
        return sum(len(work.connector) for work in works) + len(works) * self._settings.bytes_of_a_work

    def next_deadline_ms(self) -> int | None:
        """Return when :meth:`advance` has something to do; None if never."""
        due = [one.due_ms for one in self.clients.values()]
        return min((one for one in (self._kept_until_ms, *due) if one is not None), default=None)

    def advance(self, now_ms: int) -> None:
        """Remove the workers that have not done what they were told to."""
        if self._kept_until_ms is not None and self._kept_until_ms <= now_ms:
            self._keep(NOTHING)
        late = [one for one in self.clients.values() if one.due_ms is not None and one.due_ms <= now_ms]
        for one in late:
            self._remove(one.member.member_id)

    # -- membership -----------------------------------------------------------------------------------------------

    def join(
        self, member: HostedMember, offer: WorkerOffer, _replaced: HostedMember | None, _now_ms: int
    ) -> ErrorCode:
        """Let a new member in. It may have been one before, and run something."""
        self.clients[member.member_id] = ConnectClient(member=member, said=offer.said)
        self._is_stale = True
        self._give_to_nobody(offer.said.runs, member.member_id)
        self._keep(self._kept - offer.said.runs)
        return ErrorCode.NONE

    def rejoin(self, member: HostedMember, offer: WorkerOffer) -> None:
        """Note what a member's new JoinGroup brings."""
        one, said = self.clients[member.member_id], offer.said
        if self._is_news(member, one, offer):
            self._is_stale = True
            one.part = None
        if member.member_id == self._leader().member.member_id:
            self._round = None
        one.said, one.stopping, one.awaits_sync = said, NOTHING, False
        self._give_to_nobody(said.runs, member.member_id)

    def _is_news(self, member: HostedMember, one: ConnectClient, offer: WorkerOffer) -> bool:
        """Whether a JoinGroup says what no leader has been told; the leader itself asks for a round with each."""
        if member.member_id == self._leader().member.member_id:
            return True
        said = offer.said
        if (said.url, offer.subscriptions) != (one.said.url, member.subscriptions):
            return True
        if self._round is not None:
            shown = self._round.shown.get(member.member_id)
            return shown is None or shown.runs != said.runs
        if said.runs != one.said.runs or one.stopping:
            return True
        # With a part it was told to come. If it has read on since, it comes again.
        return one.part is None and (
            self._last is None or said.config_offset > self._last.difference.config_offset
        )

    def leave(self, member: HostedMember, _now_ms: int, *, is_replaced: bool = False) -> None:  # noqa: ARG002
        """End a membership. None is replaced, since Connect has no static members."""
        self._remove(member.member_id)

    def keep_for_a_session(self, member: HostedMember, now_ms: int) -> None:
        """Give to nobody what a worker runs that may come again: there is no round before that or its session's end."""
        runs = self.clients[member.member_id].said.runs
        if runs:
            self._keep(self._kept | runs)
            self._kept_until_ms = max(self._kept_until_ms or 0, now_ms + member.session_timeout_ms)
            self._give_to_nobody(runs, member.member_id)

    def _keep(self, works: WorkSet) -> None:
        self._kept = works
        if not works:
            self._kept_until_ms = None

    def forget(self, member: HostedMember) -> None:
        """Forget a client that is no member any more."""
        self._remove(member.member_id)

    def present(self) -> AbstractSet[str]:
        """Return the members: those that took too long are none any more."""
        return self.clients.keys()

    def _remove(self, member_id: str) -> None:
        if self.clients.pop(member_id, None) is None:
            return
        self._is_stale = True
        if member_id == self.leader_id:
            # Nobody is to hear of it now; its round ends, and the next leader assigns anew what was for nobody yet.
            self.leader_id, self._round, self._refused_in_a_row = None, None, 0
            for one in self.clients.values():
                one.part = None

    def _leader(self) -> ConnectClient:
        """Return the worker that leads: the same one as long as it is a member, else one that has read furthest."""
        if self.leader_id is None:
            read = max(one.said.config_offset for one in self.clients.values())
            self.leader_id = next(
                member_id for member_id, one in self.clients.items() if one.said.config_offset == read
            )
        return self.clients[self.leader_id]

    def _give_to_nobody(self, works: WorkSet, member_id: str) -> None:
        """See to it that nobody gets what this worker says that it runs."""
        for other, one in self.clients.items():
            if other == member_id or one.part is None or one.part.difference.assigned.isdisjoint(works):
                continue
            one.part = replace(one.part, difference=without(one.part.difference, works))
            self._is_stale = True

    # -- rounds ---------------------------------------------------------------------------------------------------

    def move(self, member: HostedMember, now_ms: int, *, declares: bool = False) -> ErrorCode:
        """Note until when a worker has to do what it is told."""
        one = self.clients.get(member.member_id)
        if one is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if declares or member.join is not None:
            one.due_ms = None
        elif one.due_ms is None and self.has_to_rejoin(member):
            self._expect(one, now_ms)
        return ErrorCode.NONE

    def _expect(self, one: ConnectClient, now_ms: int) -> None:
        one.due_ms = now_ms + max(one.member.rebalance_timeout_ms, self._settings.session_timeout_min_ms)

    def has_to_rejoin(self, member: HostedMember) -> bool:
        """Whether the member is to lead a round, or a part waits for it."""
        one = self.clients[member.member_id]
        if self._round is not None or one.awaits_sync:
            return False
        if one is self._leader():
            return self._is_stale and self._all_others_are_settled()
        return one.part is not None

    def _all_others_are_settled(self) -> bool:
        """Whether what each worker runs is known, and stays so until it is given something."""
        if self._kept:
            return False
        leader = self._leader()
        return all(one.is_settled for one in self.clients.values() if one is not leader)

    def has_nothing_new(self, member: HostedMember) -> bool:
        """Whether nothing has come yet of what a JoinGroup waits for."""
        return self.has_to_wait(member)

    def has_to_wait(self, member: HostedMember) -> bool:
        """Whether a JoinGroup waits: the leader's for the others, another's for its part."""
        one = self.clients[member.member_id]
        if one is self._leader():
            return not self._all_others_are_settled()
        return one.part is None and (self._is_stale or self._round is not None)

    def join_result(self, member: HostedMember, members: dict[str, HostedMember], now_ms: int) -> JoinResult:
        """Return the answer to a JoinGroup; the leader's begins a round.

        One that has waited too long is answered as a follower without a part. It is told to join again at its
        SyncGroup.
        """
        one = self.clients[member.member_id]
        if not self.has_to_wait(member):
            if one is self._leader():
                return self._begin(one, members, now_ms)
            if one.part is None and self._last is not None:
                one.part = self._last
        one.awaits_sync = True
        self._expect(one, now_ms)
        return JoinResult(self._epoch, self._protocol() if one.part is None else one.part.protocol)

    def _protocol(self) -> str:
        """Return the protocol that most prefer of those that all have."""
        names = [one.member.subscriptions for one in self.clients.values()]
        common = set(INCREMENTAL).intersection(*names)
        votes = [next(name for name in one if name in common) for one in names]
        return max(sorted(common), key=votes.count)

    def _begin(self, leader: ConnectClient, members: dict[str, HostedMember], now_ms: int) -> JoinResult:
        self._epoch += 1
        self._is_stale = False
        shown = {member_id: one.said for member_id, one in self.clients.items()}
        self._round = Round(leader.member.member_id, self._protocol(), shown)
        leader.awaits_sync = True
        self._expect(leader, now_ms)
        return JoinResult(
            self._epoch,
            self._round.protocol,
            leader=self._round.leader,
            members=tuple(
                JoinGroupResponseMember(
                    member_id=member_id,
                    group_instance_id=members[member_id].instance_id,
                    metadata=formats.for_leader(said, self._round.protocol),
                )
                for member_id, said in shown.items()
            ),
        )

    def take_assignments(
        self, member: HostedMember, assignments: Iterable[SyncGroupRequestAssignment], now_ms: int
    ) -> bool:
        """Take what a leader's SyncGroup has brought; False if the worker has to join again."""
        one = self.clients[member.member_id]
        one.due_ms = None
        if one.awaits_sync and self._round is not None and one is self._leader():
            self._end_round(one, self._round, assignments)
            if member.member_id not in self.clients:
                return True  # the group sees that
        if not one.awaits_sync or one.part is None:
            one.awaits_sync = False
            return False
        if one.part.difference.revoked or one.part.difference.error:
            self._expect(one, now_ms)  # it joins again by itself
        return True

    def _end_round(
        self, leader: ConnectClient, ended: Round, assignments: Iterable[SyncGroupRequestAssignment]
    ) -> None:
        self._round = None
        computed = checked(ended, assignments, self._settings.most_bytes)
        if computed is None:
            self.refusals += 1
            self._refused_in_a_row += 1
            self._is_stale = True
            if self._refused_in_a_row >= _MOST_REFUSALS:
                self._remove(ended.leader)
            return
        self._refused_in_a_row = 0
        own = computed[ended.leader]
        if own.error:
            # It has not read what others have (CONFIG_MISMATCH). It reads on and joins again; nothing was computed.
            self._is_stale = True
            leader.part = Part(own, ended.protocol)
            return
        self.installs += 1
        nothing = replace(own, assigned=NOTHING, revoked=NOTHING, delay_ms=0)
        self._last = Part(nothing, ended.protocol)
        owners = owners_of(self.running())
        for member_id, one in self.clients.items():
            said = ended.shown.get(member_id)
            if said is not None and said.runs == one.said.runs:
                difference = computed[member_id]
                # Who has come since may run some of it.
                taken = self._kept | {
                    work for work in difference.assigned if owners.get(work, {member_id}) != {member_id}
                }
                taken &= difference.assigned
                self._is_stale = self._is_stale or bool(taken)
                self._set_part(one, without(difference, taken), ended.protocol)

    def _set_part(self, one: ConnectClient, difference: Difference, protocol: str) -> None:
        """Let a part wait for a worker, if there is anything that it has to hear, or it waits itself."""
        is_leader = one.member.member_id == self.leader_id
        if not is_leader:
            # The leader joins again by itself when the delay is over. Nobody else need do so.
            difference = replace(difference, delay_ms=0)
        part = Part(difference, protocol)
        has_work = bool(difference.assigned or difference.revoked)
        if is_leader or has_work or one.member.join is not None or one.heard != part.heard:
            one.part = part

    def hand_out(self, member: HostedMember) -> bytes | None:
        """Return what waits for a worker: it runs that from now on."""
        one = self.clients.get(member.member_id)
        if one is None or one.part is None:
            return None
        part, one.part, one.awaits_sync = one.part, None, False
        difference = part.difference
        if not difference.error:
            one.heard = part.heard
        one.said = replace(one.said, runs=one.said.runs | difference.assigned)
        one.stopping = difference.revoked
        return formats.for_worker(difference, part.protocol)

    def running(self) -> Mapping[str, WorkSet]:
        """Return what each worker runs."""
        return {member_id: one.said.runs for member_id, one in self.clients.items()}
