"""Declares the tables that progress writes, with the meaning of each column."""

import pyarrow as pa

from pipeline.tables import FLAG, INT, LONG, TEXT, Column, Table, list_of

_GROUP = Column("group", TEXT, "the group")
ASSIGNMENT = list_of(
    pa.struct(
        [
            pa.field("topic", TEXT),
            pa.field("id", TEXT),
            pa.field("partitions", list_of(INT)),
            pa.field("role", TEXT),
        ]
    )
)
"""Partitions, tasks or connectors as the journal names them (docs/reference/journal.md)."""

_COUNTS = (
    ("joined", "JoinGroups answered"),
    ("rebalanced", "members that were asked to rejoin (state PrepareRebalance)"),
    ("adopted", "members taken over from another process"),
    ("rejoined_after_loss", "memberships that the broker had lost, mended"),
    ("left", "members that left"),
    ("expired", "members whose session or rebalance timeout passed"),
    ("fenced", "members that were fenced"),
    ("refused", "calls answered with an error"),
    ("passed_through", "calls passed through"),
)
COUNTED = tuple(name for name, _ in _COUNTS)

WINDOWS = Table(
    "windows",
    "What happened to a group in a window of time. A window is written again when more of it arrives: the row of the "
    "highest `batch` holds.",
    (
        _GROUP,
        Column("from_us", LONG, "beginning of the window, microseconds since 1970"),
        Column("until_us", LONG, "its end"),
        Column("mode", TEXT, "the newest mode of the group's policy"),
        Column("translated_members", INT, "members seen that are translated"),
        Column("classic_members", INT, "members seen that pass through as classic members"),
        Column("consumer_members", INT, "members seen that speak the new protocol themselves"),
        *(Column(name, LONG, meaning) for name, meaning in _COUNTS),
        Column("events", LONG, "events in all"),
    ),
)
TRANSITIONS = Table(
    "transitions",
    "Every change of a member's state, once.",
    (
        _GROUP,
        Column("member", TEXT, "the member"),
        Column("time_us", LONG, "when, microseconds since 1970"),
        Column("replica", TEXT, "the event's replica"),
        Column("boot", TEXT, "its boot"),
        Column("seq", LONG, "its sequence number"),
        Column("kind", TEXT, "`state_changed`, or what ended the membership"),
        Column("state", TEXT, "the state after it; empty when the membership ended"),
        Column("previous_state", TEXT, "and before it"),
        Column("mode", TEXT, "the group's mode"),
        Column("protocol", TEXT, "how the member takes part"),
        Column("software", TEXT, "client software"),
        Column("client_id", TEXT, "the client's own name"),
        Column("reason", TEXT, "why"),
    ),
)
PAUSES = Table(
    "pauses",
    "From when a member left the state Stable until it was Stable again, or gone. An upper bound of what its "
    "application stood still: a cooperative client goes on working on what it keeps.",
    (
        _GROUP,
        Column("member", TEXT, "the member"),
        Column("from_us", LONG, "beginning, microseconds since 1970"),
        Column("until_us", LONG, "end; null if it has not ended"),
        Column("ended_by", TEXT, "`Stable`, or the kind of event that ended the membership"),
        Column(
            "first", FLAG, "whether this is the member's first join, before which it had nothing to pause"
        ),
        Column("mode", TEXT, "the group's mode"),
        Column("protocol", TEXT, "how the member takes part"),
        Column("software", TEXT, "client software"),
        Column("client_id", TEXT, "the client's own name"),
        Column("reason", TEXT, "why it began"),
    ),
)
CONVERGENCES = Table(
    "convergences",
    "From the first member of a group that left Stable until all were Stable again.",
    (
        _GROUP,
        Column("from_us", LONG, "beginning, microseconds since 1970"),
        Column("until_us", LONG, "end"),
        Column("members", INT, "members that paused"),
        Column("pauses", INT, "pauses in it"),
    ),
)
STUCK = Table(
    "stuck",
    "Members that have not been Stable for longer than the given limit, at the journal's end.",
    (
        _GROUP,
        Column("member", TEXT, "the member"),
        Column("protocol", TEXT, "how the member takes part"),
        Column("client_id", TEXT, "the client's own name"),
        Column("software", TEXT, "client software"),
        Column("from_us", LONG, "since when"),
        Column("reason", TEXT, "why its pause began"),
    ),
)
OTHER_EVENTS = Table(
    "other_events",
    "What `other_groups` and `other_members` are derived from: the events of members of share and streams groups and "
    "of Kafka Connect workers. Also when a classic member was taken over and when it ended, because a worker of which "
    "only Heartbeats were seen counts as one. An event that was written twice is here twice.",
    (
        _GROUP,
        Column("member", TEXT, "the member"),
        Column("time_us", LONG, "when, microseconds since 1970"),
        Column("replica", TEXT, "the event's replica"),
        Column("boot", TEXT, "its boot"),
        Column("seq", LONG, "its sequence number"),
        Column("kind", TEXT, "the event's kind"),
        Column("protocol", TEXT, "how the member takes part"),
        Column("state", TEXT, "the member's state after it"),
        Column("client_id", TEXT, "the client's own name"),
        Column("client_host", TEXT, "its address as the proxy sees it"),
        Column("software", TEXT, "client software"),
        Column(
            "owned", TEXT, "all that the member has after it, as the journal's JSON; null if it does not tell"
        ),
        Column("url", TEXT, "Connect: where the worker's REST API listens; null for others"),
        Column(
            "config_offset", LONG, "Connect: how far it had read the topic of configurations; -1: nothing"
        ),
        Column(
            "leader",
            TEXT,
            "Connect: member id of the worker that assigned; empty before the first assignment",
        ),
        Column("leader_url", TEXT, "Connect: the REST API of that worker"),
        Column(
            "delay_ms", LONG, "Connect: after how long the workers join again by themselves; 0 if they do not"
        ),
    ),
)
OTHER_GROUPS = Table(
    "other_groups",
    "Groups that have no other protocol to move to: share groups, streams groups, and those of Kafka Connect. They are "
    "in none of the report's figures about the migration.",
    (
        _GROUP,
        Column("protocol", TEXT, "`share`, `streams` or `connect`, by its newest member of one of these"),
        Column("members", INT, "its members at the journal's end"),
        Column("ended_members", INT, "those that were members before, and are none at the journal's end"),
        Column("rebalances", INT, "how often its members had to join again, or to give something up"),
        Column("updated_us", LONG, "its newest event, microseconds since 1970"),
        Column("partitions", INT, "share: the partitions that its members may read; null for others"),
        Column("active_tasks", INT, "streams: tasks that process records; null for others"),
        Column("standby_tasks", INT, "streams: tasks that keep a copy of a state store"),
        Column("warm_up_tasks", INT, "streams: tasks that read a state store in order to become active"),
        Column("connectors", INT, "Connect: the connectors that its workers run; null for others"),
        Column("tasks", INT, "Connect: the tasks that they run"),
        Column("leader", TEXT, "Connect: member id of the worker that assigned last; null before"),
        Column("leader_url", TEXT, "Connect: the REST API of that worker"),
        Column(
            "waiting_until_us",
            LONG,
            "Connect: when the workers join again by themselves; null if they do not wait at the journal's end. Until "
            "then nobody runs what a lost worker ran",
        ),
        Column("longest_delay_ms", LONG, "Connect: the longest such wait that was announced; 0 if none was"),
    ),
)
OTHER_MEMBERS = Table(
    "other_members",
    "The members of these groups at the journal's end.",
    (
        _GROUP,
        Column("member", TEXT, "the member"),
        Column("protocol", TEXT, "`share`, `streams` or `connect`"),
        Column("client_id", TEXT, "the client's own name"),
        Column("client_host", TEXT, "its address as the proxy sees it"),
        Column("software", TEXT, "client software"),
        Column("state", TEXT, "its state"),
        Column("updated_us", LONG, "its newest event, microseconds since 1970"),
        Column(
            "assignment", ASSIGNMENT, "partitions, tasks or connectors that it has; null if that is not known"
        ),
        Column("url", TEXT, "Connect: where the worker's REST API listens; null for others"),
        Column(
            "config_offset", LONG, "Connect: how far it had read the topic of configurations; -1: nothing"
        ),
        Column("is_leader", FLAG, "Connect: whether it is the worker that assigned last; null for others"),
    ),
)
LIVE_OVERLAPS = Table(
    "live_overlaps",
    "Partitions held by two members at once, told while the journal is written (`--audit`). When more is known, an "
    "overlap is told again: of the rows of one partition, `first_event` and `second_event` the newest (`told_us`) is "
    "right. "
    "Those that the clocks' allowed difference, a static member's replacement or a silent process explain are counted "
    "only. The folder is there, and empty until there is such an overlap.",
    (
        _GROUP,
        Column("topic", TEXT, "topic name"),
        Column("partition", INT, "partition"),
        Column(
            "class",
            TEXT,
            "as in the audit's table `overlaps`, by what was known then: `violation`, `clock`, `events_lost`; another "
            "class takes back what was told before",
        ),
        Column(
            "pending",
            TEXT,
            "what may still change that: `end` (it has no end yet, which may show what it is), `clocks` (those of two "
            "replicas may be shown to differ), `reading` (events of that time may still come); null: nothing",
        ),
        Column("first_member", TEXT, "who held it first"),
        Column("first_replica", TEXT, "replica that served it"),
        Column("first_boot", TEXT, "and its boot"),
        Column("first_event", TEXT, "the event that gave it the partition: replica.boot.seq"),
        Column("second_member", TEXT, "who got it too"),
        Column("second_replica", TEXT, "replica that served it"),
        Column("second_boot", TEXT, "and its boot"),
        Column("second_event", TEXT, "the event that gave it the partition"),
        Column("from_us", LONG, "beginning of the overlap, microseconds since 1970"),
        Column("until_us", LONG, "its end; null if it had not ended by then"),
        Column("until_event", TEXT, "the event that ended it; null if none had"),
        Column("told_us", LONG, "when this row was written, by the driver's clock"),
    ),
)
TABLES = (
    LIVE_OVERLAPS,
    WINDOWS,
    TRANSITIONS,
    PAUSES,
    CONVERGENCES,
    STUCK,
    OTHER_GROUPS,
    OTHER_MEMBERS,
    OTHER_EVENTS,
)
