"""Declares the tables that the audit writes, with the meaning of each column."""

from pipeline.rules.classes import CLOCK, LOST, REPLACED, SKEW, UNPROVEN, VIOLATION
from pipeline.tables import FLAG, INT, LONG, TEXT, Column, Table, list_of

_PARTITION = (
    Column("group", TEXT, "the group"),
    Column("topic", TEXT, "topic name"),
    Column("partition", INT, "partition"),
)

INTERVALS = Table(
    "intervals",
    "Who held which partition, from when to when.",
    (
        *_PARTITION,
        Column("member", TEXT, "the member"),
        Column("instance", TEXT, "its instance id; null if dynamic"),
        Column("from_us", LONG, "beginning, microseconds since 1970"),
        Column("until_us", LONG, "end, microseconds since 1970"),
        Column("from_event", TEXT, "the event that began it: replica.boot.seq"),
        Column("until_event", TEXT, "the event that ended it; null if none did"),
        Column("ended_by", TEXT, "kind of that event; `process_ended`, `journal_ended` if there is none"),
    ),
    time="from_us",
)
OVERLAPS = Table(
    "overlaps",
    "A partition held by two members at once. Only class `violation` is a breach of the proxy's promise.",
    (
        *_PARTITION,
        Column(
            "class",
            TEXT,
            f"`{VIOLATION}`; `{SKEW}`: members of two replicas, no longer than the allowed skew; `{CLOCK}`: no longer "
            f"than their clocks are shown to differ and the skew; `{LOST}`: events of one of the two were lost then; "
            f"`{REPLACED}`: a new process with the same instance id; `{UNPROVEN}`: the journal "
            "would not tell that the first one had ended",
        ),
        Column("first_member", TEXT, "who held it first"),
        Column("first_replica", TEXT, "replica that served it"),
        Column("first_boot", TEXT, "and its boot"),
        Column("first_event", TEXT, "the event that gave it the partition"),
        Column("second_member", TEXT, "who got it too"),
        Column("second_replica", TEXT, "replica that served it"),
        Column("second_boot", TEXT, "and its boot"),
        Column("second_event", TEXT, "the event that gave it the partition"),
        Column("from_us", LONG, "beginning of the overlap, microseconds since 1970"),
        Column("until_us", LONG, "end of the overlap"),
        Column("until_event", TEXT, "the event that ended it; null if the journal ended first"),
        Column("same_instance", FLAG, "whether both have the same instance id"),
        Column("heard_us", LONG, "when the first one was last heard of before it began"),
        Column(
            "served_by", list_of(TEXT), "the processes (replica.boot) that served either of them since then"
        ),
        Column("proven", FLAG, "whether the journal would tell that the first one had ended"),
    ),
    time="from_us",
)
GAPS = Table(
    "gaps",
    "A partition that nobody held, after somebody had.",
    (
        *_PARTITION,
        Column("from_us", LONG, "beginning, microseconds since 1970"),
        Column("until_us", LONG, "end; null if nobody has taken it since"),
        Column("cause", TEXT, "kind of the event that began it"),
        Column("from_event", TEXT, "that event: replica.boot.seq"),
        Column("until_event", TEXT, "the event that ended it"),
        Column("unseen_members", INT, "members that passed through meanwhile and may have held it unseen"),
    ),
    time="from_us",
)
CLOCKS = Table(
    "clocks",
    "Proofs that clocks of two replicas differ: one client's events in the wrong order.",
    (
        Column("group", TEXT, "the group"),
        Column("ahead", TEXT, "replica whose clock is ahead"),
        Column("behind", TEXT, "replica whose clock is behind; the same one if its clock was set back"),
        Column("at_least_us", LONG, "by how much at least, microseconds"),
        Column("member", TEXT, "the client's member id"),
        Column("event", TEXT, "the event with the later time, which is the older one"),
        Column("older_event", TEXT, "the event with the earlier time"),
        Column("beyond_skew", FLAG, "whether that is more than the allowed skew"),
    ),
)
PROCESSES = Table(
    "processes",
    "Every start of every process that wrote the journal.",
    (
        Column("replica", TEXT, "the replica"),
        Column("boot", TEXT, "its boot"),
        Column("first_us", LONG, "time of its first event, microseconds since 1970"),
        Column("last_us", LONG, "time of its last event"),
        Column("last_seq", LONG, "its highest sequence number"),
        Column("events", LONG, "events that are here, each counted once"),
        Column("duplicates", LONG, "lines that repeat one of them"),
    ),
    time="first_us",
)
LOSSES = Table(
    "losses",
    "Events that never arrived, or are in files that nobody finished.",
    (
        Column("replica", TEXT, "the replica"),
        Column("boot", TEXT, "its boot"),
        Column("first_seq", LONG, "first missing sequence number"),
        Column("last_seq", LONG, "last missing sequence number"),
        Column("from_us", LONG, "time of the event before"),
        Column("to_us", LONG, "time of the event after"),
    ),
    time="to_us",
)
TABLES = (OVERLAPS, GAPS, INTERVALS, CLOCKS, PROCESSES, LOSSES)
