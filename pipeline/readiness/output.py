"""Declares the tables that readiness writes, with the meaning of each column."""

import pyarrow as pa

from pipeline.tables import FLAG, INT, LONG, TEXT, TOPIC_PARTITIONS, Column, Table, list_of

READY, REMARK, NOT_READY = "ready", "ready with remark", "not ready"

REASON = pa.struct([pa.field("code", TEXT), pa.field("blocks", FLAG), pa.field("text", TEXT)])

OFFSETS = Table(
    "offsets",
    "The newest committed offset of every group and partition.",
    (
        Column("group_id", TEXT, "the group"),
        Column("topic", TEXT, "topic name"),
        Column("topic_id", TEXT, "topic id in Kafka's text form; null if the commit did not carry one"),
        Column("partition", INT, "partition"),
        Column("committed_offset", LONG, "the committed offset: the next record to read"),
        Column("leader_epoch", INT, "leader epoch of the record before it; null if not told"),
        Column("metadata", TEXT, "what the client wrote beside it"),
        Column("commit_time_ms", LONG, "when it was committed, milliseconds since 1970"),
        Column("expire_time_ms", LONG, "when it expires; null: by the broker's own retention"),
    ),
)
GROUPS = Table(
    "groups",
    "Every group that has not been deleted.",
    (
        Column("group_id", TEXT, "the group"),
        Column(
            "kind",
            TEXT,
            "`classic`, `consumer` (the new protocol), `share`, `streams`, or `simple`: offsets without members ever",
        ),
        Column(
            "protocol_type", TEXT, "`consumer`, `connect`, `share`, ...; empty for simple and streams groups"
        ),
        Column(
            "protocol", TEXT, "classic: the assignor in use; consumer and share: the server-side assignor"
        ),
        Column(
            "state",
            TEXT,
            "`Stable`, `Empty`, `Assigning`, `Reconciling`; null for streams groups. A classic group is "
            "written after each rebalance, so it is never seen within one",
        ),
        Column(
            "epoch",
            INT,
            "classic: generation; consumer and share: group epoch; null for simple and streams groups",
        ),
        Column(
            "assignment_epoch", INT, "epoch of the target assignment; null unless kind is consumer or share"
        ),
        Column("leader", TEXT, "member id of the classic leader"),
        Column("members", INT, "number of members; null for streams groups"),
        Column("static_members", INT, "how many of them have an instance id"),
        Column("partitions", INT, "partitions with a committed offset"),
        Column("last_commit_ms", LONG, "newest commit, milliseconds since 1970; null if there is none"),
        Column("coordinator_partition", INT, "partition of `__consumer_offsets` that the group lives in"),
        Column(
            "unreadable_records", LONG, "records of this group that are newest of their key and unreadable"
        ),
        Column(
            "software",
            list_of(TEXT),
            "client software with its version, as a proxy's journal tells it (`--journal`); null if none does",
        ),
    ),
)
MEMBERS = Table(
    "members",
    "Every member of every classic, consumer and share group.",
    (
        Column("group_id", TEXT, "the group"),
        Column("member_id", TEXT, "the member"),
        Column("instance_id", TEXT, "group instance id of a static member; null if dynamic"),
        Column("client_id", TEXT, "the client's own name"),
        Column("client_host", TEXT, "its address as the broker sees it"),
        Column("rack", TEXT, "the rack that the client told; null if none"),
        Column(
            "protocol",
            TEXT,
            "`classic`, `consumer` or `share`: what this member speaks (a group may hold the first two)",
        ),
        Column("rebalance_timeout_ms", INT, "as declared; null for share groups, which have none"),
        Column("session_timeout_ms", INT, "as declared by a classic member; null for others"),
        Column(
            "embedded_version", INT, "version of a classic member's embedded subscription; null if unreadable"
        ),
        Column("subscription", list_of(TEXT), "topics; null if unreadable"),
        Column("topic_pattern", TEXT, "regular expression of a member of the new protocol"),
        Column("assignors", list_of(TEXT), "the assignors that are known of it"),
        Column("assignment", TOPIC_PARTITIONS, "what it owns; null if unreadable"),
        Column("target", TOPIC_PARTITIONS, "what it shall own; null for classic groups"),
        Column("member_epoch", INT, "null for classic groups"),
        Column("reconciled", FLAG, "whether it is stable at the assignment epoch; null for classic groups"),
        Column("user_data_bytes", INT, "user data in subscription and assignment together"),
        Column("assignment_user_data_bytes", INT, "user data in the assignment alone"),
        Column(
            "lacks_owned_partitions",
            FLAG,
            "whether a classic member's subscription says v1 and ends before its owned partitions, as kafka-go's does",
        ),
        Column("problem", TEXT, "why subscription or assignment cannot be read; null if they can"),
    ),
)
VERDICTS = Table(
    "verdicts",
    "Whether a group can move, with every reason.",
    (
        Column("group_id", TEXT, "the group"),
        Column("verdict", TEXT, f"`{READY}`, `{REMARK}` or `{NOT_READY}`"),
        Column(
            "reasons", list_of(REASON), "`code`, whether it blocks the migration, and a sentence for people"
        ),
    ),
)
WAVES = Table(
    "waves",
    "In which order the groups that can move, move: small and idle ones first.",
    (
        Column("group_id", TEXT, "the group"),
        Column("wave", INT, "1 is the first wave"),
        Column("position", INT, "place in the whole order, from 1 on"),
        Column("members", INT, "its members"),
        Column("last_commit_ms", LONG, "newest commit; null if there is none"),
        Column("verdict", TEXT, f"`{READY}` or `{REMARK}`"),
        Column(
            "at_once",
            FLAG,
            "whether brokers convert the group only while it is empty, so that it moves as a whole",
        ),
        Column("assignors_allowed", list_of(TEXT), "what `--allow-assignor` named; the same in each row"),
    ),
)
SHARE_PARTITIONS = Table(
    "share_partitions",
    "The state of every share partition, from `__share_group_state`: its last snapshot with all updates since. Empty "
    "if that topic was not read. Which records a member has acquired is not in the topic: they are as before.",
    (
        Column("group_id", TEXT, "the group"),
        Column("topic", TEXT, "topic name; null if the topic is gone"),
        Column("topic_id", TEXT, "topic id in Kafka's text form"),
        Column("partition", INT, "partition"),
        Column("state_epoch", INT, "how often the start offset was reset; null if there is no snapshot"),
        Column("leader_epoch", INT, "leader epoch of the last change; null if not told"),
        Column(
            "start_offset",
            LONG,
            "where the group begins; null if it has not read yet. Kafka writes a moved one with its next change only",
        ),
        Column("available", LONG, "records from there on that were delivered and wait to be delivered again"),
        Column("acknowledged", LONG, "records from there on that are acknowledged"),
        Column("archiving", LONG, "records from there on that are being archived (KIP-1191)"),
        Column("archived", LONG, "records from there on that were rejected or delivered too often"),
        Column(
            "last_attempt",
            LONG,
            "available records whose next delivery is the last, by the broker's `group.share.delivery.count.limit`; a "
            "`share.delivery.count.limit` of the group's own (since Kafka 4.3) is not known here",
        ),
        Column(
            "delivery_complete_count",
            INT,
            "records from there on that are finished, as the broker counts them (since Kafka 4.2); null if not told",
        ),
        Column("snapshot_time_ms", LONG, "when the snapshot was written; null if there is none"),
        Column("snapshot_age_ms", LONG, "its age when the cluster was asked; null if either is unknown"),
        Column("updates", INT, "updates since the snapshot"),
        Column("unreadable_records", INT, "unreadable records since the snapshot (see quarantine)"),
        Column("state_partition", INT, "partition of `__share_group_state` that the state lives in"),
    ),
)
TABLES = (GROUPS, MEMBERS, OFFSETS, SHARE_PARTITIONS, VERDICTS, WAVES)
