"""The bounds on what the proxy keeps, logs and shows of clients, as values of the label ``bound``
(``epochgate_bounds_hit_total``).
"""

from enum import StrEnum


class Bound(StrEnum):
    """Which bound was reached: the label of ``epochgate_bounds_hit_total``."""

    GROUP_ID = "group_id"
    """A group was not kept because its id is too long."""

    TEXT = "text"
    """A text that a client chose was truncated."""

    PARTITIONS_OF_EVENT = "partitions_of_event"
    """An event was stored without its partitions because there were too many."""

    GROUPS = "groups"
    """A group was forgotten, or not kept, because there were too many."""

    GROUPS_WITHOUT_MEMBERS = "groups_without_members"
    """A group without members was forgotten because there were too many of them."""

    MEMBERS_OF_GROUP = "members_of_group"
    """A member was not kept because its group has too many."""

    MEMBERS = "members"
    """A member was not kept because all groups together have too many."""

    PARTITIONS = "partitions"
    """The partitions of a member were not kept because members own too many in all."""

    EVENTS = "events"
    """An old event was forgotten because events take too much memory."""

    LOG_LINES = "log_lines"
    """A log line was suppressed because there were too many of its kind."""

    FLEET_IDS = "fleet_ids"
    """A member id was not claimed in the member log because its group has too many dead ones."""

    FLEET_RECORDS = "fleet_records"
    """The oldest record of the member log was forgotten because there are too many."""
