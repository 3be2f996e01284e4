"""The bounds on what is kept, logged and shown of clients, as labels of a metric."""

from enum import StrEnum


class Bound(StrEnum):
    """What was reached; the label of ``epochgate_bounds_hit_total``."""

    GROUP_ID = "group_id"
    """A group with a longer id was not kept."""

    TEXT = "text"
    """A text of a client was cut."""

    PARTITIONS_OF_EVENT = "partitions_of_event"
    """The partitions of an event were left out."""

    GROUPS = "groups"
    """A group was forgotten, or not kept, because there were too many."""

    GROUPS_WITHOUT_MEMBERS = "groups_without_members"
    """A group without members was forgotten because there were too many of them."""

    MEMBERS_OF_GROUP = "members_of_group"
    """A member was not kept because its group has too many."""

    MEMBERS = "members"
    """A member was not kept because there are too many in all."""

    PARTITIONS = "partitions"
    """What a member holds was not kept because members hold too many partitions in all."""

    EVENTS = "events"
    """An old event was forgotten because events take too much memory."""

    LOG_LINES = "log_lines"
    """A log line was left out because there were too many of its kind."""
