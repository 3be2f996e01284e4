"""The translation's own numbers, with the reason for each default: how long JoinGroups wait, the debounce of additions
for eager clients, the margin of the broker's rebalance timeout, the bounds on session timeouts and on what is kept.
"""

import msgspec


class TranslatorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Times are in seconds unless the name says otherwise."""

    join_wait_s: float = 15.0
    """The longest that a member without partitions waits in JoinGroup. Of the tested clients sarama gives up first,
    after 30 s."""

    join_wait_after_outage_s: float = 20.0
    """The same within so long after an outage of the coordinator, and while it loads the group: most session timeouts
    (10 s), and what the coordinator, the member log and the broker take until the partitions are assigned."""

    join_wait_share: float = 0.75
    """The same limit as a share of the client's own rebalance timeout; the smaller of the two holds. Clients wait for
    a JoinGroup response longer than their rebalance timeout."""

    join_poll_s: float = 0.25
    """Time between the heartbeats of a member that waits in JoinGroup."""

    rest_wait_s: float = 3.0
    """The longest that it waits for the rest of its share, when it has something: the default interval of Heartbeats,
    after which its client's next one would have it rebalance."""

    initial_rebalance_delay_s: float = 0.0
    """How long the first JoinGroup of a group without members waits for others
    (:mod:`translation.members.initial_rebalance`); 0: not at all. The configuration has Kafka's default
    (``group.initial.rebalance.delay.ms``)."""

    first_member_wait_s: float = 3.0
    """How long the first heartbeat of a group without members waits for classic ones, if its step lets only some of its
    clients be translated (:mod:`translation.joining.starting`). A classic group waits for its first members as long
    (``group.initial.rebalance.delay.ms``)."""

    topics_asked_after_s: float = 3.0
    """How long such a member waits before the broker is asked whether any of its topics exists. The first member of a
    classic group waits as long in any case (``group.initial.rebalance.delay.ms``); hardly any other waits so long, so
    the broker is rarely asked."""

    assignment_interval_s: float = 1.1
    """A little over the broker's ``group.consumer.assignment.interval.ms`` (1000 since Kafka 4.3): after this time the
    broker has computed the assignment for a change of the group."""

    addition_debounce_s: float = 0.1
    """How long added partitions for an eager member are collected after the last of them, before it is told to rejoin.
    What one change of the group adds comes within milliseconds, because the other members are heartbeated at once. The
    partitions have no owner meanwhile, so this is short: the client hears of them at its next Heartbeat only, and one
    that comes just before the member is told costs another interval (``make bench-rebalance``)."""

    addition_debounce_limit_s: float = 0.5
    """The longest that they are collected, however many keep coming."""

    upstream_margin_ms: int = 10_000
    """Added to the rebalance timeout that the broker is told, which counts before the client hears of the rebalance."""

    report_interval_s: float = 10.0
    """With a member log: how often a client's Heartbeat reports to the broker all that the client may own. It could
    have missed a change that was answered at another replica. The broker is told a rebalance timeout that is longer by
    as much. Without a log one of several processes reports it in each."""

    load_retry_s: float = 0.2
    """Time between attempts inside JoinGroup while the coordinator loads its groups."""

    asks_hook: bool = False
    """Whether a hook is asked before a step of a move begins (:class:`~translation.actions.CallHook`)."""

    sole_process: bool = True
    """Whether no other process may serve the same members. Only then is the member of a silent client removed with
    epoch -1 when its session timeout ends; otherwise the broker's own session timeout removes it."""

    broker_session_s: float = 45.0
    """The broker's own session timeout (``group.consumer.session.timeout.ms``, which can't be shorter). With a member
    log: after so long without a verdict on its calls a client is made to rejoin."""

    out_of_reach_limit_s: float = 1_800.0
    """For how long a member is kept that nobody can end because its coordinator, or the member log, is away."""

    relayed_s: float = 60.0
    """How long a member that the broker has as a classic one is relayed before the broker is asked for it again."""

    revocation_grace_s: float = 300.0
    """How long the conversion of a classic group waits for cooperative members to give up partitions that they were not
    assigned again. Kafka's default for the longest that an application may take (``max.poll.interval.ms``)."""

    turn_limit_s: float = 3.0
    """How long a call of a member's client may wait for an earlier one on another connection that the broker does not
    answer. Then that connection is closed. The shortest session timeout that stock brokers allow is 6 s. A broker that
    waits for its replicas may take 5 s for a commit (``offsets.commit.timeout.ms``); the client whose connection is
    closed for that retries."""

    session_timeout_min_ms: int = 6_000
    """The shortest session timeout that a JoinGroup may ask for (Kafka: ``group.min.session.timeout.ms``)."""

    session_timeout_max_ms: int = 1_800_000
    """The longest (Kafka: ``group.max.session.timeout.ms``)."""

    authorized_groups_limit: int = 1_000
    """Groups that are remembered for each connection as authorized by the broker."""

    native_members_limit: int = 50_000
    """Members remembered as native ones."""

    classic_members_limit: int = 50_000
    """Classic members whose subscription and assignment are remembered, so that they can be converted in place."""

    classic_members_bytes_limit: int = 64 << 20
    """Bytes that these records may take together: a client chooses how long its subscription is."""

    groups_limit: int = 20_000
    """Groups without members of which something is remembered, for example that they can't be translated."""

    relayed_limit: int = 10_000
    """Classic members of one group that are remembered as relayed ones."""

    issued_ids_limit: int = 100_000
    """Member ids remembered as given out here."""

    known_topics_limit: int = 100_000
    """Topic names kept by topic id."""
