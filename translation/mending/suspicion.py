"""Decides for how long partitions have to be without an owner before the group is mended, and how long after a try."""

import msgspec

from translation.mending.findings import Findings

CONFIRMED_AFTER_S = 10.0
"""A partition without an owner in two descriptions this far apart stays without one: any change is over by then."""

CLIENTS_MAY_S = 360.0
"""The same where clients may be about to change it themselves: within ``metadata.max.age.ms`` they find new partitions,
within ``max.poll.interval.ms`` they give partitions up. Both are five minutes by default."""

FIRST_BACKOFF_MS = 60_000
REMEMBERED_MS = 3_600_000
"""What was tried so long ago counts no more: what stood in the way may be over, or somebody has forged the record."""


class Suspicion(msgspec.Struct):
    """What a process has seen of a group with partitions without an owner. Times are seconds."""

    findings: Findings
    since: float
    tries: int = 0
    """How often something was done about it, as far as this process knows."""
    why_not: str = ""
    """Why nothing is done about it, for people; empty if something will be."""
    refused: str = ""
    """Why the broker refused what was tried."""
    told: str = ""
    """The reason that was reported last."""
    seen_at: float = 0.0


def is_confirmed(suspicion: Suspicion, now: float, *, is_classic: bool) -> bool:
    """Whether it has lasted for long enough to do something about it now."""
    lasts_s = CLIENTS_MAY_S if is_classic and suspicion.findings.clients_may else CONFIRMED_AFTER_S
    return now - suspicion.since >= lasts_s


def backoff_ms(tries: int) -> int:
    """For how long (milliseconds) after so many tries nothing more is done; at least one was made."""
    return FIRST_BACKOFF_MS << (tries - 1)
