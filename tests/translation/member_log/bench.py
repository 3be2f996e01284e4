"""Replicas with one member log: a bench for the translation of each, and the log by hand between them."""

from itertools import groupby
from typing import Any, TypeVar

from protocol_codecs import ApiKey
from tests.translation.bench import TRANSLATE_ALL, Bench
from translation.actions import Action, Call, EventKind
from translation.member_log.counting import Stored
from translation.member_log.formats import FORMATS
from translation.member_log.group_records import (
    GroupKey,
    GroupRecord,
    StoredGroup,
    decode_group_key,
    decode_group_value,
    is_group_key,
)
from translation.member_log.member_log import MemberLog
from translation.member_log.outputs import Health, WriteRecord
from translation.member_log.records import (
    NO_GENERATION,
    PROBE,
    Kind,
    MemberKey,
    MemberRecord,
    Writer,
    decode_key,
)
from translation.member_log.settings import FleetSettings
from translation.policy.policy import Policy
from translation.settings import TranslatorSettings

ReplicaT = TypeVar("ReplicaT", bound="Replica")

_SOMEBODY = MemberKey("", "a member whose record is not read back")


class SharedLog:
    """A member log of one partition. A record lands, and is read by every replica, at once or when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.records: list[tuple[MemberKey | GroupKey, Writer, MemberRecord | GroupRecord | None]] = []
        self.replicas: list[Replica] = []
        self.on_its_way: list[WriteRecord] = []
        self.is_held = False
        """Whether records lie on their way until :meth:`deliver`."""

    def replica(self, **settings: Any) -> "Replica":
        """Another replica, which has read the log and found it ready."""
        return self.start(Replica(self, **settings))

    def start(self, replica: "ReplicaT") -> "ReplicaT":
        """Have a new replica read the log."""
        self.replicas.append(replica)
        replica.read()
        replica.log.replay_to(0, len(self.records), self.now)
        replica.take_outputs()
        self.deliver()
        assert replica.log.health(0) is Health.READY
        return replica

    def write(self, record: WriteRecord) -> None:
        """A replica has given its producer a record."""
        self.on_its_way.append(record)

    def deliver(self) -> None:
        """What is on its way lands, and everybody reads it."""
        while self.on_its_way:
            written = self.on_its_way.pop(0)
            self.records.append(_read(written))
            for replica in self.replicas:
                replica.read()

    def settle(self) -> None:
        """Deliver everything that the replicas write, unless that is held."""
        for replica in self.replicas:
            replica.take_outputs()
        while self.on_its_way and not self.is_held:
            self.deliver()
            for replica in self.replicas:
                replica.take_outputs()

    def advance(self, seconds: float) -> None:
        """Let time pass for all replicas, with every deadline on its time."""
        until = self.now + seconds
        while (due := min(replica.next_deadline() for replica in self.replicas)) <= until:
            self.now = max(self.now, due)
            for replica in self.replicas:
                replica.handle_time(self.now)
            self.settle()
        self.now = until
        for replica in self.replicas:
            replica.now = until

    def go_away(self) -> None:
        """From now on nothing lands, and every replica has noticed."""
        self.is_held = True
        for replica in self.replicas:
            replica.log.claim(_SOMEBODY, 0, self.now)
        self.advance(FleetSettings().wait_s)
        assert all(replica.log.health(0) is Health.AWAY for replica in self.replicas)

    def come_back(self) -> None:
        """What is on its way lands at last."""
        self.is_held = False
        self.settle()
        self.advance(FleetSettings().probe_away_s)

    def kinds(self, member_id: str) -> list[Kind]:
        """What the log says of a member, in order, without records that only add its client's generation."""
        kinds, generation = [], NO_GENERATION
        for key, _, record in self.records:
            if isinstance(record, MemberRecord) and key[1] == member_id:
                if record.kind is not Kind.SERVED or record.generation == generation:
                    kinds.append(record.kind)
                generation = record.generation
        return kinds

    def generations(self, member_id: str) -> list[int]:
        """The generations that the log says of a member's client, in order, each once."""
        said = [
            record.generation
            for key, _, record in self.records
            if isinstance(record, MemberRecord) and key[1] == member_id
        ]
        return [generation for generation, _ in groupby(said)]


def _read(written: WriteRecord) -> tuple[MemberKey | GroupKey, Writer, MemberRecord | GroupRecord | None]:
    if is_group_key(written.key):
        assert written.value is not None
        return *decode_group_key(written.key), decode_group_value(written.value)
    record = None if written.value is None else FORMATS[written.format].decode(written.value)
    return *decode_key(written.key), record


class Replica(Bench):
    """The translation of one replica, with its member log."""

    def __init__(
        self,
        shared: SharedLog,
        *,
        policy: Policy = TRANSLATE_ALL,
        expires: bool = True,
        resumes: bool = False,
        new_group: bool = False,
        settings: TranslatorSettings | None = None,
        probe_s: float = FleetSettings().probe_s,
        **more: Any,
    ) -> None:
        self.shared = shared
        self.writer = Writer(b"writer %d" % len(shared.replicas))
        self.log = MemberLog(
            FleetSettings(partitions=1, expires=expires, resumes=resumes, probe_s=probe_s),
            self.writer,
            shared.now,
        )
        self._position = 0
        super().__init__(policy=policy, settings=settings, new_group=new_group, member_log=self.log, **more)
        self._uuids = iter(f"uuid-{len(shared.replicas)}-{n}" for n in range(1, 10_000))
        self.now = shared.now

    def _do(self, actions: list[Action]) -> None:
        super()._do(actions)
        self.shared.settle()

    def take_outputs(self) -> None:
        """Do what the member log says."""
        while outputs := self.log.outputs():
            heard = []
            for output in outputs:
                if isinstance(output, WriteRecord):
                    self.shared.write(output)
                else:
                    heard.append(output)
            if heard:
                super()._do(self.translator.handle_log_outputs(self.now, heard))

    def read(self) -> None:
        """Read the log to its end."""
        while self._position < len(self.shared.records):
            key, writer, record = self.shared.records[self._position]
            at_ms = int(self.now * 1000)
            if isinstance(record, GroupRecord):
                assert isinstance(key, GroupKey)
                self.log.read_group(0, key, StoredGroup(self._position, at_ms, writer, record))
            elif record is None:
                assert key == PROBE
                self.log.read_probe(0, writer, self._position, at_ms, self.now)
            else:
                assert isinstance(key, MemberKey)
                self.log.read(0, key, Stored(self._position, at_ms, writer, record), self.now)
            self._position += 1
            self.take_outputs()

    def next_deadline(self) -> float:
        return min(self.translator.next_deadline(), self.log.next_deadline())

    def handle_time(self, now: float) -> None:
        self.now = now
        self.log.handle_time(now)
        self.take_outputs()
        super()._do(self.translator.handle_time(now))
        self.take_outputs()

    def advance(self, seconds: float) -> None:
        self.shared.advance(seconds)

    def settle(self, epoch: int) -> None:
        """Let the heartbeats that follow a change run out; no answer brings anything new."""
        for _ in range(20):
            self.shared.advance(0.1)
            while any(call.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT for call in self.calls):
                self.beat(epoch)

    def leave_epochs(self) -> list[int]:
        """The epochs with which memberships are ended at the broker by calls that are under way."""
        return [call.message.member_epoch for call in self.heartbeats() if call.message.member_epoch < 0]

    def heartbeats(self) -> list[Call]:
        """The ConsumerGroupHeartbeats that are under way."""
        return [call for call in self.calls if call.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT]

    def reasons(self, kind: EventKind) -> list[str]:
        """The reasons of the events of a kind, so far."""
        return [event.reason for event in self.events if event.kind is kind]
