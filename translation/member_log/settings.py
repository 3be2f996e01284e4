"""The member log's own numbers, with the reason for each: how long it waits, how much it keeps, how fast it writes."""

import msgspec

from translation.member_log.formats import DEFAULT_FORMAT


class FleetSettings(msgspec.Struct, frozen=True):
    """Numbers of the member log. ``server`` is shown to people."""

    partitions: int = 16
    server: str = ""
    record_format: int = DEFAULT_FORMAT
    """The number of the format in which records are written."""
    expires: bool = True
    """Whether members are expired here. Only when every process that serves these clients writes the log."""
    resumes: bool = True
    """Whether snapshots of members are written and used, so that another replica goes on without a rejoin."""
    wait_s: float = 2.0
    """For how long a call waits for a verdict, and a record to be read back before its partition counts as away."""
    session_timeouts_ms: tuple[int, int] = (6_000, 1_800_000)
    """The shortest and the longest that a client may ask for (``limits.session_timeout_min_ms`` and ``_max_ms``)."""
    probe_s: float = 30.0
    """Between two probes of a partition: so long a reader that is stuck may go unnoticed."""
    probe_away_s: float = 5.0
    refresh_s: float = 6 * 3600.0
    """A member that is served is written again at least so often, so that its record does not grow too old."""
    tries: int = 4
    """Records that are written for one claim or end, if others win each time."""
    writes_per_s: float = 500.0
    dead_ids: int = 1000
    """By so many the dead member ids of a group may be more than its others; then no id is claimed that is not known.

    Whoever may read the group can make ids, and each is kept for an hour by all replicas.
    """
    most_members: int = 100_000
    """Members whose records are kept, and of which the oldest are forgotten beyond that; likewise records of groups."""
    members_of_group: int = 50_000
    """The same for one group."""
    max_bytes: int = 128 * 1024 * 1024
    """About how much memory the records of members may take, and half of that those of groups."""
