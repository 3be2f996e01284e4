"""Invariants of the member log in a run of several replicas.

L1. At each offset all replicas that have read so far have the same record that counts for a member, and it is the one
    of an oracle that sees the whole log and compares what each writer really saw.
L2. Epoch -1 goes out for a member that a deadline ends only when an ``expiring`` of it has been read.
L3. An ``expiring`` is written only by a replica that has answered no call of the member that came within its session,
    or has told it to rejoin and has not answered its JoinGroup within its rebalance timeout. What other replicas have
    heard does not matter: it counts only if none of them has the member (L1). When it counts, the client is outside its
    contract.
L4. A replica that has read that a member id is dead answers no call under it with NONE.
L5. A replica has one unresolved record of a member at a time, and writes none while the log is away.
L6. Epoch 0 goes out under an id of ours from one boot only.
L7. ``served`` is written only by a replica that has read a Heartbeat, SyncGroup or JoinGroup under the id, or for an id
    of which nobody has written it. So nobody takes a member over, which costs its client a rejoin, for a commit.
"""

from typing import TYPE_CHECKING, Any

from protocol_codecs import ApiKey, ErrorCode
from tests.simulation.standing import Standing
from tests.simulation.violation import Violation
from tests.simulation.wire import GROUP, Ask
from tests.translation.member_log.model import Entry
from translation.member_log.group_records import GroupKey, GroupRecord
from translation.member_log.outputs import Health
from translation.member_log.records import PROBE, Kind, MemberKey, MemberRecord, member_key
from translation.members.member_ids import ISSUED_PREFIX

if TYPE_CHECKING:
    from tests.simulation.fleet.log_topic import LogTopic, LogWay
    from tests.simulation.proxy_process import ProxyProcess
    from tests.simulation.watch import Watch


def _name_of(key: MemberKey | GroupKey, record: MemberRecord | GroupRecord | None) -> str:
    if isinstance(key, GroupKey) and isinstance(record, GroupRecord):
        return f"{key.name} {record.slot or record.move}"
    return f"{record.kind if isinstance(record, MemberRecord) else 'nothing'} {key[1]}"


Boot = tuple[str, int]
"""A replica's name, and its how-manieth start it is."""


class LogWatch:
    """Judges what replicas write to the member log, and what they read there."""

    def __init__(self, watch: "Watch") -> None:
        self._watch = watch
        self._called: set[tuple[Boot, str]] = set()
        """Under which ids each boot was called in a way that shows where the client is, or was the first to serve."""
        self._served: set[str] = set()
        """The ids of which any replica has written that it serves them."""
        self._began: dict[str, Boot] = {}
        """Which boot began the membership under each id."""
        self._heard_ms: dict[tuple[Boot, str], int] = {}
        """When the last call came that a boot has answered, by member."""
        self._told_to_rejoin_ms: dict[tuple[Boot, str], int] = {}
        """When a boot first answered REBALANCE_IN_PROGRESS after it last answered NONE, by member."""
        self._arrived_ms: dict[tuple[Any, int], int] = {}
        self._left: dict[tuple[Boot, str], bool] = {}
        """Whether the boot that sent epoch -1 for a member had read that its id is dead."""
        self._expired: set[tuple[Boot, str]] = set()
        """Memberships whose end by a deadline was reported, with epoch -1 still to be sent: the broker is asked first
        whether a helper has to stand in."""

    def skips_what_is_written(self) -> None:
        """The topic has another timestamp type for a while."""
        self._watch.count("outages of the log in which its records have no time of the broker")

    def written(
        self,
        way: "LogWay",
        key: MemberKey | GroupKey,
        record: MemberRecord | GroupRecord | None,
        unresolved: bool,
    ) -> None:
        """A replica hands a record to its producer."""
        if key == PROBE:
            return
        what = _name_of(key, record)
        self._watch.tell(way.name, f"writes to the log: {what}")
        self._watch.count("records of the member log")
        if not way.is_ready:
            raise Violation(11, f"{way.name} writes {what} while the log is away")
        if unresolved:
            raise Violation(11, f"{way.name} writes a second unresolved record: {what}")
        if isinstance(key, GroupKey) or isinstance(record, GroupRecord):
            return
        kind = None if record is None else record.kind
        if kind is Kind.EXPIRING:
            self._check_silence(way, key.member_id)
        elif kind is Kind.SERVED:
            self._check_called(way, key.member_id)

    def _check_called(self, way: "LogWay", member_id: str) -> None:
        called = way.boot, member_id
        if called not in self._called and member_id in self._served:
            raise Violation(11, f"{way.name} takes over {member_id}, under which nobody has called it")
        self._called.add(called)
        self._served.add(member_id)

    def _check_silence(self, way: "LogWay", member_id: str) -> None:
        standing = self._watch.client_of.get(member_id)
        heard_ms = self._heard_ms.get((way.boot, member_id))
        if standing is None or standing.session_timeout_ms is None or heard_ms is None:
            return
        if standing.joins_waiting or standing.client.member_id != member_id:
            return  # the client itself joins anew, and its old membership ends for that
        now_ms = self._watch.kernel.now_ms
        # By the classic contract the broker that told it counts, whatever the client has tried elsewhere since.
        told_ms = self._told_to_rejoin_ms.get((way.boot, member_id), now_ms)
        if 0 < standing.rebalance_timeout_ms <= now_ms - told_ms:
            return
        silent_ms = now_ms - heard_ms
        if silent_ms < standing.session_timeout_ms and standing.excuse() is None:
            raise Violation(11, f"{way.name} expires {member_id}, which it heard {silent_ms} ms ago")

    def landed(self, topic: "LogTopic", entry: Entry) -> None:
        """A record lies in the log."""
        if entry.key == PROBE or entry.record is None:
            return
        counts = topic.log.oracle.history[-1].get(entry.key) == entry
        what = _name_of(entry.key, entry.record)
        self._watch.tell(
            "the log", f"has {what} at {entry.offset}{'' if counts else ', which does not count'}"
        )
        if isinstance(entry.key, GroupKey) or isinstance(entry.record, GroupRecord):
            return
        if counts and entry.record.kind is Kind.EXPIRING:
            self._watch.count("members that the log expired")
            standing = self._watch.client_of.get(entry.key.member_id)
            if standing is not None:
                standing.end("the log says that its member id is dead")

    def has_read(self, way: "LogWay", offset: int) -> None:
        """A replica has read the log up to this offset."""
        if way.log.health(0) is Health.REPLAYING:
            return
        view = way.log._members.partitions[0].view
        for key, entry in way.topic.log.oracle.history[offset].items():
            present: Any = (
                way.log.groups.of_group(key.group_id).get(key.name)
                if isinstance(key, GroupKey)
                else view.get(key)
            )
            if present is None or present.offset != entry.offset:
                raise Violation(11, f"for {way.name} at {offset} counts {present} of {key}, not {entry}")

    @staticmethod
    def has_yet_to_read(way: "LogWay", standing: Standing, generation: int) -> bool:
        """Whether a replica can't have read that a client has a newer generation than this.

        The record lies in the log, where its reader has not come to it, or is on its way there. Or the replica where
        the client joined can't write it yet: the log is away for it, the record before is not read back, or the client
        has not come with the SyncGroup that shows its generation.
        """
        key = member_key(GROUP, standing.member_id)
        view = way.log._members.partitions[0].view
        history = way.topic.log.oracle.history
        known, last = view.get(key), history[-1].get(key) if history else None
        if known is not None and known.record.generation > generation:
            return False
        unread: list[Any] = [last.record] if last is not None and last.offset >= view.position else []
        unread += [written.record for other in way.topic.ways for written in other.under_way(key)]
        if any(record is not None and record.generation > generation for record in unread):
            return True
        if not standing.synced:
            return True
        return any(other.boot == standing.joined_at and other.must_wait(key) for other in way.topic.ways)

    # -- what a replica does with it ---------------------------------------------------------------------------------

    def called(self, process: "ProxyProcess", member_id: str, epoch: int) -> None:
        """A replica sends a heartbeat of the new protocol."""
        if process.member_log is None:
            return
        boot = process.name, process.incarnation
        if epoch == 0:
            # An epoch -1 before was of the membership before, which a JoinGroup found lost at the broker.
            self._left.pop((boot, member_id), None)
            self._expired.discard((boot, member_id))
        if epoch == 0 and member_id.startswith(ISSUED_PREFIX):
            began = self._began.setdefault(member_id, boot)
            if began != boot:
                raise Violation(11, f"{boot} begins under {member_id}, under which {began} did")
        elif epoch == -1:
            self._left[boot, member_id] = self.is_dead(process, member_id)
            if (boot, member_id) in self._expired:
                self._expired.discard((boot, member_id))
                self._check_dead(process, member_id)

    def has_begun_elsewhere(self, process: "ProxyProcess", member_id: str) -> bool:
        """Whether the membership under an id of ours was begun by another boot than this."""
        return self._began.get(member_id, (process.name, process.incarnation)) != (
            process.name,
            process.incarnation,
        )

    def expired(self, process: "ProxyProcess", member_id: str) -> None:
        """A replica reports that a deadline has ended a membership."""
        ended = (process.name, process.incarnation), member_id
        if ended in self._left:
            self._check_dead(process, member_id)
        else:
            self._expired.add(ended)

    def _check_dead(self, process: "ProxyProcess", member_id: str) -> None:
        if not self._left.pop(((process.name, process.incarnation), member_id)):
            raise Violation(11, f"{process} has removed {member_id}, and had not read that it is dead")

    def read(self, process: "ProxyProcess", ask: Ask) -> None:
        """A replica has read a call of anybody, before it does anything."""
        if ask.api_key in (ApiKey.HEARTBEAT, ApiKey.SYNC_GROUP, ApiKey.JOIN_GROUP):
            self._called.add(((process.name, process.incarnation), ask.message.member_id))

    def arrived(self, client: Any, ask: Ask) -> None:
        """A replica has read a call."""
        self._arrived_ms[client, ask.number] = self._watch.kernel.now_ms

    def answered(
        self, process: "ProxyProcess", standing: Standing, ask: Ask, message: Any, codes: set[int]
    ) -> None:
        """A replica answers a call."""
        arrived_ms = self._arrived_ms.pop((standing.client, ask.number))
        if ask.api_key == ApiKey.JOIN_GROUP:
            arrived_ms = self._watch.kernel.now_ms  # its session begins with the answer
        elif ask.api_key not in (ApiKey.HEARTBEAT, ApiKey.SYNC_GROUP):
            return
        if not codes <= {ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS}:
            return
        member_id = message.member_id if ask.api_key == ApiKey.JOIN_GROUP else ask.message.member_id
        if codes == {ErrorCode.NONE} and self.is_dead(process, member_id):
            name = ApiKey(ask.api_key).name
            raise Violation(11, f"{process} answers {name} of {member_id}, which it has read is dead")
        key = (process.name, process.incarnation), member_id
        self._heard_ms[key] = max(arrived_ms, self._heard_ms.get(key, 0))
        if ErrorCode.REBALANCE_IN_PROGRESS in codes:
            self._told_to_rejoin_ms.setdefault(key, self._watch.kernel.now_ms)
        else:
            self._told_to_rejoin_ms.pop(key, None)

    def age(self, process: "ProxyProcess", by_ms: int) -> None:
        """The clock of a process jumps."""
        for times in (self._heard_ms, self._told_to_rejoin_ms):
            for boot, member_id in times:
                if boot == (process.name, process.incarnation):
                    times[boot, member_id] -= by_ms

    @staticmethod
    def is_dead(process: "ProxyProcess", member_id: str) -> bool:
        """Whether a replica has read that an id is dead."""
        if process.member_log is None:
            return False
        record = process.member_log.log.record(member_key(GROUP, member_id))
        return record is not None and record.kind.is_dead
