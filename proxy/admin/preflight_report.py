"""The report of a preflight, for programs and people alike."""

from enum import StrEnum

import msgspec


class Status(StrEnum):
    """How a check ended."""

    PASSED = "passed"
    """All of it was checked, and nothing was found."""
    FOUND = "found"
    UNKNOWN = "unknown"
    """A part of it could not be checked, and nothing was found in the rest."""
    ACCEPTED = "accepted"
    """Something was found or unknown that the operator has accepted."""
    NOT_ASKED = "not asked"
    """It needs an option that was not given."""


class Source(StrEnum):
    """From where a check has its facts."""

    BROKERS = "brokers"
    API_VERSIONS = "api_versions"
    SETTINGS = "settings"
    GROUPS = "groups"
    GROUP_SETTINGS = "group_settings"
    ACLS = "acls"
    PROXY = "proxy"
    CONFIGURATION = "configuration"
    PORTS = "ports_here"
    VERSION = "version"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that an operator should know, or that could not be checked (``unknown``).

    ``check`` is the check that found it, or for something unknown the source that did not answer.
    """

    check: str
    unknown: bool = False
    what: str
    groups: tuple[str, ...] = ()
    """The groups that it is about, by id in order; empty if it is about the whole cluster or the proxy."""
    groups_left_out: int = 0
    """How many groups more it is about, in a report that was shortened."""
    do: str
    accepted: bool = False
    checks: tuple[str, ...] = ()
    """For something unknown: the checks that lack it."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A check and how it ended. ``needs`` names the option that it lacks, if it was not asked."""

    check: str
    status: Status
    meaning: str
    needs: str | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a preflight has to say."""

    status: Status
    """``found`` if anything was found that is not accepted, else ``unknown``, else ``passed``."""
    brokers: int
    groups: int
    to_move: int
    """Groups among them that the policy translates."""
    findings: tuple[Finding, ...]
    checks: tuple[Outcome, ...]
    advice: tuple[str, ...]
    """What no preflight can see."""
    findings_left_out: int = 0
    """How many findings more there are, in a report that was shortened."""


def shortened(report: Report, *, findings: int, groups: int, characters: int) -> Report:
    """Return the report with so many findings at most, with so many groups in all of them together, and so long texts.

    What was found comes first, so what is left out is least of all that.
    """
    kept = []
    for one in report.findings[:findings]:
        named = one.groups[:groups]
        groups -= len(named)
        kept.append(
            msgspec.structs.replace(
                one,
                groups=named,
                groups_left_out=len(one.groups) - len(named),
                what=_cut(one.what, characters),
                do=_cut(one.do, characters),
            )
        )
    return msgspec.structs.replace(
        report, findings=tuple(kept), findings_left_out=len(report.findings) - len(kept)
    )


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[: characters - 1]}…"
