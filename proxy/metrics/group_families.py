"""The metrics that describe groups: their names, labels and meanings.

Their values are computed at each scrape by the package that tracks the groups (``proxy.groups.group_metrics``).
"""

from typing import NamedTuple

PREFIX = "epochgate_"


class Family(NamedTuple):
    """A gauge, without the prefix of its name."""

    name: str
    labels: tuple[str, ...]
    meaning: str


GROUP_MODE = Family(
    "group_mode",
    ("group", "mode"),
    "1 for each group with members here, with the mode that the policy has for it; their number for the label `other`.",
)
MEMBERS = Family(
    "members",
    ("mode", "protocol", "state"),
    "Members of groups, by the mode that the policy has for their group (while it moves, they may not have got there "
    "yet), by protocol and by state.",
)
GROUP_MEMBERS = Family(
    "group_members",
    ("group", "protocol"),
    "Members of a group that are connected through this proxy, by protocol.",
)
BROKER_MEMBERS = Family(
    "group_broker_members",
    ("group", "type"),
    "Members of a group as the broker reports them, by type: `classic` or `consumer` (the new protocol). Groups of "
    "Kafka Connect, share groups and streams groups have none: they can't be migrated.",
)
STUCK_MEMBERS = Family(
    "group_stuck_members",
    ("group",),
    "Members that have been rebalancing for longer than their rebalance timeout.",
)
STUCK = Family(
    "group_stuck",
    ("group",),
    "1 if the group has stuck members here, or its move to the new protocol makes no progress, else 0.",
)
GAP = Family(
    "group_epoch_gap",
    ("group",),
    "The largest difference between a member's epoch at the broker and the generation that its client has.",
)
NOT_TRANSLATABLE = Family(
    "group_not_translatable",
    ("group", "reason"),
    "1 for each group that can't be translated, with the category of the reason; until its last member here leaves.",
)
CONNECTORS = Family(
    "connect_connectors",
    ("group",),
    "Connectors that run on workers of Kafka Connect which are connected through this proxy.",
)
TASKS = Family("connect_tasks", ("group",), "Tasks of connectors that run on those workers.")
REJOIN = Family(
    "connect_rejoin_timestamp_seconds",
    ("group",),
    "When the workers of a group of Kafka Connect join again by themselves, in seconds since 1970; 0 if they do not. "
    "Until then nobody runs what a lost worker ran (`scheduled.rebalance.max.delay.ms`).",
)
UNOWNED = Family(
    "group_unowned_partitions",
    ("group",),
    "Partitions that brokers have left to nobody, of a group that Epochgate has moved and whose members come here.",
)
SHADOWS = Family(
    "group_shadow",
    ("group", "result"),
    "1 for each observed group, by what its forecast is: `computed`, or `unknown` if nothing can be said of its move.",
)
SHADOW_EMPTY = Family(
    "group_shadow_empty_members",
    ("group",),
    "The most members of an observed group that the new protocol would leave without partitions.",
)
SHADOW_MOVED = Family(
    "group_shadow_moved_partitions",
    ("group",),
    "The most partitions of an observed group that would go from one client to another in its move.",
)
LEFT_OUT = Family("unlabelled_groups", (), "Groups that share the label `other`.")

FAMILIES = (
    GROUP_MODE,
    MEMBERS,
    GROUP_MEMBERS,
    BROKER_MEMBERS,
    STUCK_MEMBERS,
    STUCK,
    GAP,
    NOT_TRANSLATABLE,
    CONNECTORS,
    TASKS,
    REJOIN,
    UNOWNED,
    SHADOWS,
    SHADOW_EMPTY,
    SHADOW_MOVED,
    LEFT_OUT,
)
