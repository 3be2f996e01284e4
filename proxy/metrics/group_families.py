"""The metrics that describe groups: their names, labels and meanings.

Their values are made at each scrape by the room that knows the groups (``proxy.observability.group_metrics``).
"""

from typing import NamedTuple

PREFIX = "epochgate_"


class Family(NamedTuple):
    """One metric, without the prefix; all of them are gauges."""

    name: str
    labels: tuple[str, ...]
    meaning: str


GROUPS = Family(
    "groups",
    ("mode", "protocol", "state"),
    "Groups, by mode, by how their members come and by state (Empty, Rebalancing, Stable).",
)
MEMBERS = Family("members", ("mode", "protocol", "state"), "Members of groups, by mode, protocol and state.")
GROUP_MEMBERS = Family(
    "group_members",
    ("group", "protocol"),
    "Members of a group that come through this proxy, by how they come.",
)
BROKER_MEMBERS = Family(
    "group_broker_members",
    ("group", "type"),
    "Members of a group as the broker has them: `classic` or `consumer` (the new protocol).",
)
ELSEWHERE = Family(
    "group_members_elsewhere",
    ("group",),
    "Members that the broker has and that do not come through this proxy.",
)
PROGRESS = Family(
    "group_progress_ratio",
    ("group",),
    "Part of a group's members that are members of the new protocol, 0 to 1, as the broker says (asked every now "
    "and then), else as they come.",
)
STUCK_MEMBERS = Family(
    "group_stuck_members", ("group",), "Members that are rebalancing beyond their rebalance timeout."
)
STUCK = Family(
    "stuck_groups", (), "Groups with such members, or whose move to the new protocol does not go on."
)
GAP = Family(
    "group_epoch_gap",
    ("group",),
    "The largest distance between a member's epoch and the generation that its client holds.",
)
NOT_TRANSLATABLE = Family(
    "not_translatable_groups",
    ("reason",),
    "Groups that can't be translated, by category of what stands in the way.",
)
LEFT_OUT = Family("unlabelled_groups", (), "Groups that share the label `other`.")

FAMILIES = (
    GROUPS,
    MEMBERS,
    GROUP_MEMBERS,
    BROKER_MEMBERS,
    ELSEWHERE,
    PROGRESS,
    STUCK_MEMBERS,
    STUCK,
    GAP,
    NOT_TRANSLATABLE,
    LEFT_OUT,
)
