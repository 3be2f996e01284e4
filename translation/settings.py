"""The translation's own numbers, with the reason for each default."""

import msgspec


class TranslatorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Times are in seconds unless the name says otherwise."""

    join_wait_s: float = 10.0
    """Longest that a member without partitions waits in JoinGroup. The shortest patience seen is sarama's 30 s."""

    join_wait_share: float = 0.5
    """The same bound as a share of the client's own rebalance timeout; the smaller of the two holds."""

    join_poll_s: float = 0.25
    """Time between the heartbeats of a member that waits in JoinGroup."""

    topics_asked_after_s: float = 3.0
    """How long such a member waits until the broker is asked whether any of its topics exists. The first member of a
    classic group waits as long in any case (``group.initial.rebalance.delay.ms``), and hardly anybody else does, so
    that few are asked for."""

    assignment_interval_s: float = 1.1
    """A little over the broker's ``group.consumer.assignment.interval.ms`` (1000 since Kafka 4.3): a change
    that the broker did not compute at once is there when this has passed."""

    addition_debounce_s: float = 0.1
    """How long additions for an eager member are gathered after the last of them, before it is told. What one
    change of the group adds comes within milliseconds, because the others are heartbeated at once; the partitions lie
    idle meanwhile. The client hears at its next Heartbeat only, which gathers for much longer; a member that is told
    just too late for one waits for another interval (``make bench-rebalance``)."""

    addition_debounce_limit_s: float = 0.5
    """The longest that gathering may last, however many additions keep coming."""

    upstream_margin_ms: int = 10_000
    """Added to the rebalance timeout that the broker is told: its clock starts before the client hears."""

    leave_wait_s: float = 5.0
    """Longest that the last member of the new protocol waits in LeaveGroup for classic members that have something to
    give up. They hear of it within a heartbeat interval, 3 s by default, and a client that closes waits no longer than
    its own timeout, 30 s in Java."""

    load_retry_s: float = 0.2
    """Time between attempts inside JoinGroup while the coordinator loads its groups."""

    sole_process: bool = True
    """Whether no other process may serve the same members: only then a silent client's member is removed with
    epoch -1 when its session ends; otherwise the broker's own session timeout decides."""

    relayed_s: float = 60.0
    """How long a member that the broker has as a classic one is relayed before the broker is asked again."""

    revocation_grace_s: float = 300.0
    """How long the conversion of a classic group waits for cooperative members to give up what they were not assigned
    again. Kafka's default for the longest that an application may take (``max.poll.interval.ms``)."""

    turn_limit_s: float = 3.0
    """How long a call of a member's client may wait for one that came before it on another connection, and goes
    unanswered there. Then that connection is closed. The shortest session timeout that stock brokers allow is 6 s. A
    broker that waits for its replicas may take 5 s for a commit (``offsets.commit.timeout.ms``); the client whose
    connection is closed for that tries again."""

    session_timeout_min_ms: int = 6_000
    """The shortest session timeout that a JoinGroup may ask for (Kafka: ``group.min.session.timeout.ms``)."""

    session_timeout_max_ms: int = 1_800_000
    """The longest (Kafka: ``group.max.session.timeout.ms``)."""

    authorized_groups_limit: int = 1_000
    """Groups of one connection for which it is remembered that the broker accepts its calls."""

    native_members_limit: int = 50_000
    """Members remembered as native ones."""

    groups_limit: int = 20_000
    """Groups without members of which something is remembered, such as that they are not translatable."""

    relayed_limit: int = 10_000
    """Classic members of one group that are remembered as relayed ones."""

    issued_ids_limit: int = 100_000
    """Member ids remembered as given out here."""

    known_topics_limit: int = 100_000
    """Topic names kept by topic id."""
