"""The quirks of client libraries that a coordinator can observe. Sources: each client's own code.

Every quirk was observed or read in a real client; the comment names it.
"""

from enum import Enum, auto

import msgspec


class Claims(Enum):
    """The owned partitions that a client reports in JoinGroup."""

    TRUTHFUL = auto()
    """The partitions that it holds at this moment."""

    NOTHING = auto()
    """Never anything (sarama; every client with embedded version 0)."""

    FROM_MEMORY = auto()
    """Whatever it was last assigned, also after it lost it (kafka-python)."""


class Connections(Enum):
    """How a client distributes its calls over connections."""

    ONE = auto()
    JOIN_APART = auto()
    """JoinGroup and SyncGroup on one, everything else on another (franz-go)."""

    NEW_EACH_GENERATION = auto()
    """Another one for each JoinGroup, and another to leave (kafka-go)."""


class Habits(msgspec.Struct, frozen=True, kw_only=True):
    """The behaviour of one client library."""

    kind: str
    protocols: tuple[str, ...] = ("range",)
    cooperative: bool = False
    embedded_version: int = 3
    claims: Claims = Claims.TRUTHFUL
    connections: Connections = Connections.ONE
    join_version: int = 9
    sync_version: int = 5
    heartbeat_version: int = 4
    commit_version: int = 8
    leave_version: int = 5
    heartbeats_between_polls: bool = False
    """One thread: a heartbeat only when the application comes back (kafkajs)."""

    gives_up_when_join_fails: bool = True
    """Whether UNKNOWN_MEMBER_ID on JoinGroup makes it give up its partitions (not librdkafka, not franz-go)."""

    illegal_generation_drops_id: bool = False
    """(aiokafka, sarama)"""

    join_error_drops_id: bool = False
    """Any error on JoinGroup makes it forget its member id (kafka-go)."""

    repeats_sync: bool = False
    """A lost SyncGroup answer: asks again, instead of joining again."""

    ignores_rebalance_ms: int = 0
    """How long it goes on after REBALANCE_IN_PROGRESS."""

    impatient_after_ms: int = 0
    """Sends JoinGroup again on another connection after this; 0: waits as long as its timeouts say."""

    rejoins_after_revoking: bool = True
    """Whether it joins again by itself after it gave up what SyncGroup withheld (not always kafka-python)."""

    consumes_when_fenced: bool = False
    """After FENCED_INSTANCE_ID heartbeats stop and consuming goes on (kafka-python)."""

    commits_when_revoked: bool = True
    """Commits with its current generation before it gives partitions up."""

    truncates: bool = False
    """Its subscription says version 1, and ends before the owned partitions that version 1 has (kafka-go)."""

    keeps_unsubscribed: bool = False
    """It holds, and claims, partitions of topics that it has just unsubscribed from until SyncGroup (franz-go)."""

    shares_with_fetch: bool = False
    """Fetches on the connection of its group calls: they wait behind the long poll (sarama, old librdkafka)."""

    @property
    def is_static_capable(self) -> bool:
        """Whether it can have an instance id."""
        return self.join_version >= 5 and self.heartbeat_version >= 3 and self.commit_version >= 7


JAVA_EAGER = Habits(kind="java-eager")

JAVA_COOPERATIVE = Habits(kind="java-cooperative", protocols=("cooperative-sticky",), cooperative=True)

JAVA_BOTH = Habits(kind="java-both", protocols=("range", "cooperative-sticky"))
"""The default of Java 3: as long as one assignor is eager, so is the client."""

LIBRDKAFKA = Habits(
    kind="librdkafka",
    protocols=("cooperative-sticky",),
    cooperative=True,
    embedded_version=2,
    gives_up_when_join_fails=False,
    repeats_sync=True,
)

KAFKA_PYTHON = Habits(
    kind="kafka-python",
    protocols=("cooperative-sticky",),
    cooperative=True,
    embedded_version=2,
    claims=Claims.FROM_MEMORY,
    rejoins_after_revoking=False,
    consumes_when_fenced=True,
    join_version=5,
    sync_version=3,
    heartbeat_version=3,
    commit_version=7,
    leave_version=3,
)

AIOKAFKA = Habits(
    kind="aiokafka",
    protocols=("roundrobin",),
    embedded_version=0,
    claims=Claims.NOTHING,
    illegal_generation_drops_id=True,
    join_version=5,
    sync_version=3,
    heartbeat_version=1,
    commit_version=3,
    leave_version=1,
)

SARAMA = Habits(
    kind="sarama",
    protocols=("sticky",),
    embedded_version=1,
    claims=Claims.NOTHING,
    illegal_generation_drops_id=True,
    join_version=5,
    sync_version=3,
    heartbeat_version=3,
    commit_version=7,
    leave_version=3,
    shares_with_fetch=True,
)

KAFKAJS = Habits(
    kind="kafkajs",
    protocols=("RoundRobinAssigner",),
    embedded_version=0,
    claims=Claims.NOTHING,
    heartbeats_between_polls=True,
    join_version=5,
    sync_version=3,
    heartbeat_version=3,
    commit_version=5,
    leave_version=3,
)

KAFKA_GO = Habits(
    kind="kafka-go",
    protocols=("range",),
    embedded_version=0,
    truncates=True,
    claims=Claims.NOTHING,
    connections=Connections.NEW_EACH_GENERATION,
    join_error_drops_id=True,
    join_version=2,
    sync_version=0,
    heartbeat_version=0,
    commit_version=2,
    leave_version=0,
)

FRANZ_GO = Habits(
    kind="franz-go",
    protocols=("cooperative-sticky",),
    cooperative=True,
    connections=Connections.JOIN_APART,
    keeps_unsubscribed=True,
    gives_up_when_join_fails=False,
    repeats_sync=True,
)

DAWDLER = Habits(kind="dawdler", ignores_rebalance_ms=6_000)
"""Ignores REBALANCE_IN_PROGRESS for a while."""

IMPATIENT = Habits(kind="impatient", impatient_after_ms=1_500)
"""Its JoinGroups race."""

IMPATIENT_COOPERATIVE = Habits(
    kind="impatient-cooperative",
    protocols=("cooperative-sticky",),
    cooperative=True,
    impatient_after_ms=1_500,
    gives_up_when_join_fails=False,
)

UNDERCLAIMER = Habits(
    kind="underclaimer",
    protocols=("cooperative-sticky",),
    cooperative=True,
    embedded_version=0,
    claims=Claims.NOTHING,
    truncates=True,
)
"""Works on while it rejoins, and does not say so (as other fetchers of kafkajs may)."""

ALL_KINDS = (
    JAVA_EAGER,
    JAVA_COOPERATIVE,
    JAVA_BOTH,
    LIBRDKAFKA,
    KAFKA_PYTHON,
    AIOKAFKA,
    SARAMA,
    KAFKAJS,
    KAFKA_GO,
    FRANZ_GO,
    DAWDLER,
    IMPATIENT,
    IMPATIENT_COOPERATIVE,
    UNDERCLAIMER,
)


def _with_range(habits: Habits) -> Habits:
    return msgspec.structs.replace(habits, protocols=("range",))


COUNT_THEIR_SESSION = frozenset({LIBRDKAFKA.kind, KAFKA_PYTHON.kind})
"""The kinds that give up their member id when no coordinator has answered for a session timeout."""

FAMILIES = (
    (
        JAVA_EAGER,
        JAVA_BOTH,
        _with_range(AIOKAFKA),
        _with_range(SARAMA),
        KAFKA_GO,
        DAWDLER,
        IMPATIENT,
    ),
    (JAVA_COOPERATIVE, LIBRDKAFKA, KAFKA_PYTHON, FRANZ_GO, IMPATIENT_COOPERATIVE),
    (KAFKAJS,),
)
"""Kinds that have an assignor in common, so that they can be in one classic group."""
