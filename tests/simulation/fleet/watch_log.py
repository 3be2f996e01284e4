"""Invariants of the member log in a run of several replicas.

L1. At each offset all replicas that have read so far have the same record that counts for a member, and it is the one
    of an oracle that sees the whole log and compares what each writer really saw.
L2. Epoch -1 goes out for a member that a deadline ends only when an ``expiring`` of it has been read.
L3. A replica that has read that a member id is dead answers no call under it with NONE.
L4. A replica has one unresolved record of a member at a time, and writes none while the log is away.
L5. Epoch 0 goes out under an id of ours from one boot only.
"""

from typing import TYPE_CHECKING

from tests.simulation.violation import Violation
from tests.simulation.wire import GROUP
from tests.translation.fleet.model import Entry
from translation.engine.member_ids import ISSUED_PREFIX
from translation.fleet.outputs import Health
from translation.fleet.records import PROBE, Kind, MemberKey, MemberRecord, member_key

if TYPE_CHECKING:
    from tests.simulation.fleet.log_topic import LogTopic, LogWay
    from tests.simulation.proxy_process import ProxyProcess
    from tests.simulation.watch import Watch


Boot = tuple[str, int]
"""A replica's name, and its how-manieth start it is."""


class LogWatch:
    """Judges what replicas write to the member log, and what they read there."""

    def __init__(self, watch: "Watch") -> None:
        self._watch = watch
        self._began: dict[str, Boot] = {}
        """Which boot began the membership under each id."""
        self._left: dict[tuple[Boot, str], bool] = {}
        """Whether the boot that sent epoch -1 for a member had read that its id is dead."""

    def written(self, way: "LogWay", key: MemberKey, record: MemberRecord | None, unresolved: bool) -> None:
        """A replica hands a record to its producer."""
        if key == PROBE:
            return
        kind = "nothing" if record is None else record.kind
        self._watch.tell(way.name, f"writes to the log: {kind} {key.member_id}")
        self._watch.count("records of the member log")
        if not way.is_ready:
            raise Violation(11, f"{way.name} writes {kind} of {key.member_id} while the log is away")
        if unresolved:
            raise Violation(11, f"{way.name} writes a second unresolved record of {key.member_id}")

    def landed(self, topic: "LogTopic", entry: Entry) -> None:
        """A record lies in the log."""
        if entry.key == PROBE or entry.record is None:
            return
        counts = topic.log.oracle.history[-1].get(entry.key) == entry
        what = f"{entry.record.kind} {entry.key.member_id}"
        self._watch.tell(
            "the log", f"has {what} at {entry.offset}{'' if counts else ', which does not count'}"
        )
        if counts and entry.record.kind is Kind.EXPIRING:
            self._watch.count("members that the log expired")

    def has_read(self, way: "LogWay", offset: int) -> None:
        """A replica has read the log up to this offset."""
        if way.log.health(0) is Health.REPLAYING:
            return
        view = way.log._members.partitions[0].view
        for key, entry in way.topic.log.oracle.history[offset].items():
            present = view.get(key)
            if present is None or present.offset != entry.offset:
                raise Violation(11, f"for {way.name} at {offset} counts {present} of {key}, not {entry}")

    # -- what a replica does with it ---------------------------------------------------------------------------------

    def called(self, process: "ProxyProcess", member_id: str, epoch: int) -> None:
        """A replica sends a heartbeat of the new protocol."""
        if process.member_log is None:
            return
        boot = process.name, process.incarnation
        if epoch == 0 and member_id.startswith(ISSUED_PREFIX):
            began = self._began.setdefault(member_id, boot)
            if began != boot:
                raise Violation(11, f"{boot} begins under {member_id}, under which {began} did")
        elif epoch == -1:
            self._left[boot, member_id] = self._is_dead(process, member_id)

    def expired(self, process: "ProxyProcess", member_id: str) -> None:
        """A replica reports that a deadline has ended a membership."""
        boot = process.name, process.incarnation
        if not self._left.pop((boot, member_id), True):
            raise Violation(11, f"{process} has removed {member_id}, and had not read that it is dead")

    def answered(self, process: "ProxyProcess", member_id: str, what: str) -> None:
        """A replica answers a call of a member with NONE."""
        if member_id and self._is_dead(process, member_id):
            raise Violation(11, f"{process} answers {what} of {member_id}, which it has read is dead")

    @staticmethod
    def _is_dead(process: "ProxyProcess", member_id: str) -> bool:
        if process.member_log is None:
            return False
        record = process.member_log.log.record(member_key(GROUP, member_id))
        return record is not None and record.kind.is_dead
