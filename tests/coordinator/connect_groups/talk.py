"""What workers say to the coordinator, in few words. Works are written ``a`` (a connector) and ``a-0`` (a task)."""

from collections.abc import Iterable, Mapping

from coordinator.connect_groups.coordinator import ConnectGroupCoordinator
from coordinator.connect_groups.settings import ConnectGroupSettings
from coordinator.connect_groups.work import Work, WorkSet, as_message, from_message
from coordinator.log import MemoryLog
from coordinator.shard import Call, Shard
from protocol_codecs import connect_groups as c

GROUP = "connect-cluster"
REBALANCE_MS = 10_000
SESSION_MS = 30_000
SETTINGS = ConnectGroupSettings(session_timeout_ms=SESSION_MS, heartbeat_interval_ms=1_000, max_size=4)
COMPATIBLE = c.ConnectAssignor(name="compatible", minimum_version=0, maximum_version=2, version=1)
SESSIONED = c.ConnectAssignor(name="sessioned", minimum_version=2, maximum_version=2, version=2)
UNCHANGED = object()


def works(text: str) -> WorkSet:
    """``works("a a-0 a-1")``."""
    parts = (word.rpartition("-") for word in text.split())
    return frozenset(Work(name, int(task)) if name else Work(task) for name, _, task in parts)


def text(given: Iterable[Work]) -> str:
    return " ".join(
        work.connector if work.task < 0 else f"{work.connector}-{work.task}" for work in sorted(given)
    )


def told(response: c.ConnectGroupHeartbeatResponse) -> str | None:
    """What a worker may run by this answer; None if it says nothing."""
    return (
        None if response.assignment is None else text(from_message(response.assignment.connectors_and_tasks))
    )


class Talk:
    """A coordinator, and a clock that stands still until it is moved."""

    def __init__(self, settings: ConnectGroupSettings = SETTINGS, others: Shard | None = None) -> None:
        self.settings = settings
        self.log = MemoryLog(codec=c.CONNECT_GROUPS)
        self.now_ms = 1_000
        self.coordinator = ConnectGroupCoordinator(settings, log=self.log, others=others)
        self.epochs: dict[str, int] = {}

    @property
    def group(self):
        return self.coordinator.shard.groups[GROUP]

    def beat(self, member_id: str, epoch: int | None = None, runs: str | None = None, **fields):
        request = c.ConnectGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member_id,
            member_epoch=self.epochs.get(member_id, 0) if epoch is None else epoch,
            connectors_and_tasks=None if runs is None else as_message(works(runs)),
            **fields,
        )
        response = self.send(request)
        if response.error_code == 0:
            self.epochs[member_id] = response.member_epoch
        return response

    def join(self, member_id: str, configured: str | None = None, offset: int = -1, **fields):
        given = {
            "rebalance_timeout_ms": REBALANCE_MS,
            "client_assignors": (COMPATIBLE,),
            "config_offset": offset,
            "configured": as_message(works(configured)) if configured is not None else None,
            **fields,
        }
        return self.beat(member_id, 0, "", **given)

    def leave(self, member_id: str):
        return self.beat(member_id, -1)

    def prepare(self, member_id: str, epoch: int | None = None, group_id: str = GROUP):
        epoch = self.epochs[member_id] if epoch is None else epoch
        return self.send(
            c.ConnectGroupPrepareAssignmentRequest(group_id=group_id, member_id=member_id, member_epoch=epoch)
        )

    def install(
        self,
        member_id: str,
        group_epoch: int,
        assignment: Mapping[str, str] | Iterable[tuple[str, str]],
        *,
        epoch: int | None = None,
        error: int = 0,
        version: int = 1,
        metadata: bytes = b"",
    ):
        pairs = assignment.items() if isinstance(assignment, Mapping) else assignment
        return self.send(
            c.ConnectGroupInstallAssignmentRequest(
                group_id=GROUP,
                member_id=member_id,
                member_epoch=self.epochs[member_id] if epoch is None else epoch,
                group_epoch=group_epoch,
                error=error,
                members=tuple(
                    c.ConnectGroupInstallAssignmentRequestMember(
                        member_id=member,
                        connectors_and_tasks=_given(part),
                        version=version,
                        metadata=metadata,
                    )
                    for member, part in pairs
                ),
            )
        )

    def compute(self, member_id: str, assignment: Mapping[str, str]) -> None:
        """Prepare and install, and see it accepted."""
        prepared = self.prepare(member_id)
        assert prepared.error_code == 0, prepared.error_message
        installed = self.install(member_id, prepared.group_epoch, assignment)
        assert installed.error_code == 0, installed.error_message

    def send(self, request):
        return self.coordinator.handle(request, Call(1, 0, "client", "/host"), self.now_ms)

    def wait(self, ms: int) -> None:
        self.now_ms += ms
        self.coordinator.advance(self.now_ms)

    def restart(self) -> None:
        others = self.coordinator.shard.others
        self.coordinator = ConnectGroupCoordinator(self.settings, log=self.log, others=others)
        self.coordinator.load(self.now_ms)


def _given(part: str) -> tuple[c.ConnectorsAndTasks, ...]:
    """As they are written, with doubles."""
    return tuple(message for word in part.split() for message in as_message(works(word)))
