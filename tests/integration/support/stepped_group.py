"""A group whose members a test moves on step by step, so that races come about where it makes them.

Classic clients do what libraries do, a call at a time, without waiting for an answer; members of the new protocol
heartbeat. After each step it is known who works on which partition.
"""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kio.schema.consumer_protocol_assignment.v1.data import ConsumerProtocolAssignment
from kio.schema.consumer_protocol_subscription.v1.data import ConsumerProtocolSubscription
from kio.schema.errors import ErrorCode
from kio.schema.leave_group.v3.request import LeaveGroupRequest, MemberIdentity
from kio.serial import entity_reader
from kio.static.primitive import i32

from support import raw
from support.broker import Kafka
from support.in_place import Classic
from support.raw_member import Offer
from support.raw_new_member import LEAVE, RawNewMember
from support.waiting import eventually

SESSION_MS = 10_000
REBALANCE_MS = 30_000
LONGEST_GAP_S = 5.0

_LOST = (ErrorCode.unknown_member_id, ErrorCode.illegal_generation, ErrorCode.fenced_instance_id)


class Client(Classic):
    """A classic client with one topic. Eager: it gives up all before it joins; cooperative: what it has to."""

    def __init__(
        self,
        kafka: Kafka,
        group: str,
        topic: str,
        *,
        partitions: int,
        cooperative: bool = False,
        **options: Any,
    ) -> None:
        self._where = kafka.bootstrap, group
        instance_id = options.pop("instance_id", None)
        offer = Offer(assignor="cooperative-sticky" if cooperative else "range", instance_id=instance_id)
        options = {"session_timeout_ms": SESSION_MS, "rebalance_timeout_ms": REBALANCE_MS, **options}
        super().__init__(kafka, group, topic, offer=offer, **options)
        self._partitions, self._is_cooperative = partitions, cooperative
        self._request: Any = None
        self._then: Callable[[Any], None] = self._on_heartbeat
        self._to_join = True
        self._left_open: list[raw.RawConnection] = []
        self.is_silent = False
        self.revoked = 0
        """How often it had to give up everything, or a part."""
        self.lost = 0
        """How often it was no member any more."""

    @property
    def is_calm(self) -> bool:
        """Whether it works and need not join again, as far as it knows."""
        return not self._to_join and self._then == self._on_heartbeat

    def step(self) -> None:
        """Take an answer that has come, or send the next call."""
        if self.is_silent:
            return
        try:
            if self._request is not None:
                if self._connection.has_answer():
                    request, self._request = self._request, None
                    answer = self._connection.receive(request)
                    if answer.error_code == ErrorCode.not_coordinator:
                        self._reconnect()
                    else:
                        self._then(answer)
            elif self._to_join:
                claims = self.shares if self._is_cooperative else {}
                self._send(self._join_request(claims), self._on_join)
            else:
                self._send(self._heartbeat_request(), self._on_heartbeat)
        except (ConnectionError, TimeoutError):
            self._reconnect()

    def silence(self) -> None:
        """It sends nothing any more and works on nothing: its process is dead."""
        self.is_silent, self.shares = True, {}

    def join_elsewhere(self, *, hangs_up: bool) -> None:
        """Join again by itself, on another connection; whatever it waits for on this one is left there."""
        if hangs_up:
            self._connection.close()
        else:
            self._left_open.append(self._connection)
        self._connection, self._request = raw.to_coordinator(*self._where), None
        self._has_to_join()

    def leave_group(self) -> None:
        """LeaveGroup, on a connection of its own; it works on nothing any more."""
        self.silence()
        request = LeaveGroupRequest(group_id=self._group, members=(MemberIdentity(member_id=self.member_id),))
        with raw.to_coordinator(*self._where) as connection:
            assert connection.call(request).error_code == ErrorCode.none

    def __exit__(self, *raised: object) -> None:
        for connection in self._left_open:
            connection.close()
        super().__exit__(*raised)

    def _reconnect(self) -> None:
        self._request = None
        self._to_join = self._to_join or not self.is_calm
        self._then = self._on_heartbeat
        with contextlib.suppress(OSError, LookupError):  # it tries again with its next call
            found = raw.to_coordinator(*self._where)
            self._connection.close()
            self._connection = found

    def _send(self, request: Any, then: Callable[[Any], None]) -> None:
        if self.instance_id:
            request = dataclasses.replace(request, group_instance_id=self.instance_id)
        self._request, self._then = request, then
        self._connection.send(request)

    def _on_heartbeat(self, answer: Any) -> None:
        if answer.error_code == ErrorCode.rebalance_in_progress:
            self._has_to_join()
        elif answer.error_code in _LOST:
            self._is_lost()

    def _has_to_join(self) -> None:
        self._to_join, self._then = True, self._on_heartbeat
        if not self._is_cooperative and self.shares:
            self.revoked += 1
            self.shares = {}

    def _is_lost(self) -> None:
        self.lost += self.generation >= 0
        self.shares, self.generation, self.member_id = {}, i32(-1), ""
        self._has_to_join()

    def _on_join(self, answer: Any) -> None:
        if answer.error_code == ErrorCode.member_id_required:
            self.member_id = answer.member_id
        elif answer.error_code == ErrorCode.none:
            self._to_join = False
            self.generation, self.member_id = answer.generation_id, answer.member_id
            self.leads = answer.leader == answer.member_id
            shares = self._share_out(answer.members) if self.leads else {}
            self._send(self._sync_request(shares), self._on_sync)
        elif answer.error_code in _LOST:
            self._is_lost()

    def _share_out(self, members: Any) -> Mapping[str, Mapping[str, frozenset[int]]]:
        """Each keeps its fair share of what it claims; what nobody claims goes to who has least."""
        fair, claimed = -(-self._partitions // len(members)), set[int]()
        shares: dict[str, set[int]] = {}
        for member in sorted(members, key=lambda one: one.member_id):
            subscription, _ = entity_reader(ConsumerProtocolSubscription)(member.metadata, 2)
            claims = {number for one in subscription.owned_partitions for number in one.partitions} - claimed
            claimed |= claims
            shares[member.member_id] = set(sorted(claims)[:fair])
        for number in sorted(set(range(self._partitions)) - claimed):
            min(shares.values(), key=len).add(number)
        return {member_id: {self.topic: frozenset(share)} for member_id, share in shares.items()}

    def _on_sync(self, answer: Any) -> None:
        self._then = self._on_heartbeat
        if answer.error_code == ErrorCode.none:
            assignment, _ = entity_reader(ConsumerProtocolAssignment)(answer.assignment, 2)
            now = {at.topic: frozenset(at.partitions) for at in assignment.assigned_partitions}
            has_less = bool(self.owned - now.get(self.topic, frozenset()))
            self.shares = now
            if has_less:  # of a cooperative one: what it has given up goes to others when it joins again
                self.revoked += 1
                self._to_join = True
        elif answer.error_code in _LOST:
            self._is_lost()
        else:
            self._has_to_join()


class Native(RawNewMember):
    """A member of the new protocol, straight at the broker: it gives up at once what is taken from it."""

    is_silent = False
    is_calm = True

    def step(self) -> None:
        """A full heartbeat."""
        if not self.is_silent:
            answer = self.full(self.shares)
            assert answer.error_code == ErrorCode.none, answer

    def leave(self) -> None:
        """Leave the group."""
        self.is_silent, self.owned, self.shares = True, frozenset(), {}
        assert self.beat(LEAVE).error_code == ErrorCode.none


class SteppedGroup:
    """Clients at an entry and members of the new protocol straight at the broker, in one group with one topic."""

    def __init__(self, kafka: Kafka, entry: str, group: str, topic: str, partitions: int) -> None:
        self.kafka, self.group, self.topic, self.partitions = kafka, group, topic, partitions
        self._entry = Kafka(entry, source="entry", version=kafka.version)
        self.members: list[Client | Native] = []
        self._without_owner: dict[int, float] = {}
        self.longest_gap_s = 0.0
        """The longest time in which a partition had no owner since :meth:`watch`."""
        self._is_watched = False

    @property
    def clients(self) -> list[Client]:
        """The classic ones that are not silent."""
        return [one for one in self.members if isinstance(one, Client) and not one.is_silent]

    def client(self, *, straight: bool = False, **options: Any) -> Client:
        """One more client, which joins at the next steps."""
        at = self.kafka if straight else self._entry
        one = Client(at, self.group, self.topic, partitions=self.partitions, **options)
        self.members.append(one)
        return one

    def native(self) -> Native:
        """One more member of the new protocol, which has joined."""
        one = Native(self.kafka, self.group, self.topic)
        self.members.append(one.join())
        return one

    def form(self, count: int = 3, **options: Any) -> list[Client]:
        """So many clients share the partitions, and from now on that is watched."""
        clients = [
            self.client(
                **{name: value(number) if callable(value) else value for name, value in options.items()}
            )
            for number in range(count)
        ]
        self.until_shared()
        self.watch()
        return clients

    def watch(self) -> None:
        """From now on count how long partitions have no owner, and how often clients give them up."""
        for one in self.clients:
            one.revoked = 0
        self._is_watched, self._without_owner, self.longest_gap_s = True, {}, 0.0
        self._look()

    def step(self) -> None:
        """Each member does one thing."""
        for one in self.members:
            one.step()
            self._look()

    def until(self, is_so: Callable[[], Any], what: str, *, timeout_s: float = 40.0) -> None:
        """Step until it is so."""

        def look() -> object:
            self.step()
            return is_so() or None

        def seen() -> object:
            return look() or [
                (type(one).__name__, sorted(one.owned), vars(one).get("lost")) for one in self.members
            ]

        eventually(seen, lambda found: not isinstance(found, list), what=what, timeout_s=timeout_s)

    def go_on(self, for_s: float) -> None:
        """Step for so long."""
        until = time.monotonic() + for_s
        self.until(lambda: time.monotonic() >= until, f"{for_s} s have passed", timeout_s=for_s + 20)

    def is_shared(self) -> bool:
        """Whether each partition has an owner, each member has some, and none has to join again."""
        alive = [one for one in self.members if not one.is_silent]
        return all(one.owned and one.is_calm for one in alive) and self._owned() == self.everything

    def until_shared(self) -> None:
        """Step until it is so."""
        self.until(self.is_shared, "the members share the partitions")

    def until_translated(self) -> None:
        """Step until all members are of the new protocol, the helper has left, and they share the partitions."""

        def is_so() -> bool:
            view = self.kafka.describe(self.group)
            return (
                view is not None
                and not view.helpers
                and {one.member_type for one in view.members} == {"consumer"}
                and self.is_shared()
            )

        self.until(is_so, "all are members of the new protocol")

    def until_classic(self) -> None:
        """Step until it is a classic group, and Stable, whose members share the partitions."""

        def is_so() -> bool:
            return self.is_shared() and self.kafka.describe_classic(self.group).group_state == "Stable"

        self.until(is_so, "it is a classic group")

    def ensure_no_harm(self) -> None:
        """No client lost its membership, and no partition was without an owner for long."""
        self._look()
        assert [one.lost for one in self.members if isinstance(one, Client)].count(0) == sum(
            isinstance(one, Client) for one in self.members
        )
        assert self.longest_gap_s < LONGEST_GAP_S

    def move_group_epoch(self) -> None:
        """A member without topics comes and goes, straight at the broker."""
        with RawNewMember(self.kafka, self.group, self.topic) as passing:
            assert passing.full(epoch=0, topics=()).error_code == ErrorCode.none
            assert passing.beat(LEAVE).error_code == ErrorCode.none

    @property
    def everything(self) -> list[int]:
        """All partitions."""
        return list(range(self.partitions))

    def _owned(self) -> list[int]:
        return sorted(number for one in self.members for number in one.owned)

    def _look(self) -> None:
        owned = self._owned()
        assert len(owned) == len(set(owned)), [sorted(one.owned) for one in self.members]
        if not self._is_watched:
            return
        now, missing = time.monotonic(), set(self.everything) - set(owned)
        self._without_owner = {number: self._without_owner.get(number, now) for number in missing}
        self.longest_gap_s = max(
            [self.longest_gap_s, *(now - since for since in self._without_owner.values())]
        )


@contextlib.contextmanager
def stepped_group(kafka: Kafka, entry: str, group: str, partitions: int) -> Iterator[SteppedGroup]:
    """A group without members on a new topic, which the coordinator knows."""
    stepped = SteppedGroup(kafka, entry, group, kafka.new_topic(partitions=partitions), partitions)
    with RawNewMember(kafka, f"{group}-other", stepped.topic) as first:
        first.join().until_owns(partitions).beat(LEAVE)
    try:
        yield stepped
    finally:
        for one in stepped.members:
            one.__exit__(None, None, None)
