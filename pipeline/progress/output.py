"""Declares the tables that progress writes, with the meaning of each column."""

from pipeline.tables import FLAG, INT, LONG, TEXT, Column, Table

_GROUP = Column("group", TEXT, "the group")
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
        Column("client_id", TEXT, "the client's own name"),
        Column("software", TEXT, "client software"),
        Column("from_us", LONG, "since when"),
        Column("reason", TEXT, "why its pause began"),
    ),
)
TABLES = (WINDOWS, TRANSITIONS, PAUSES, CONVERGENCES, STUCK)
