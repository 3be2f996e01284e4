"""What the running proxy's own preflight has found, for ``/api/preflight`` and the page."""

from enum import StrEnum

import msgspec

from proxy.admin.preflight_report import Report


class PreflightState(StrEnum):
    """Where the proxy's own preflight stands."""

    OFF = "off"
    """The configuration switches it off."""
    WAITING = "waiting"
    """None has ended yet; one is due."""
    DONE = "done"
    """``report`` is that of the last one."""
    FAILED = "failed"
    """The last one came to no end; ``report``, if there is one, is older."""


class PreflightView(msgspec.Struct, frozen=True, kw_only=True):
    """What ``GET /api/preflight`` answers. Times are seconds since 1970.

    ``failure`` says why the last preflight came to no end; ``null`` if it did not fail. ``asked_at`` is when the one
    began that made ``report``, ``took_s`` how long it took, ``policy_version`` the policy that it judged by (as in
    ``/api/groups``); they are ``null`` before the first. ``running`` says whether one is under way.
    """

    v: int = 1
    state: PreflightState = PreflightState.OFF
    running: bool = False
    failure: str | None = None
    asked_at: float | None = None
    took_s: float | None = None
    policy_version: int | None = None
    report: Report | None = None


class PreflightBoard:
    """Where a process keeps the view: whoever runs preflights writes it, the admin port reads it."""

    def __init__(self) -> None:
        self.view = PreflightView()
