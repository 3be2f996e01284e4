"""The timers of Connect groups."""

from coordinator.timers import Timer


class ConnectSessionTimeout(Timer, frozen=True, tag=True):
    """A worker sent nothing for the session timeout."""


class ConnectRebalanceTimeout(Timer, frozen=True, tag=True):
    """A worker did not stop in time what it was told to stop."""


class ConnectComputationTimeout(Timer, frozen=True, tag=True, kw_only=True):
    """The worker that is to compute a group's target did not install one in time; one for each group."""

    computing_member: str
    attempt: int
