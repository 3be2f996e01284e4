"""What makes a preflight fail: applies the checks to the facts, leaves out what is accepted (``preflight.accept``),
and makes the report. No socket and no clock.
"""

from collections.abc import Collection, Iterable

import msgspec

from proxy.admin.preflight_report import Finding, Outcome, Report, Source, Status
from proxy.config.loader import ConfigError
from proxy.config.schema import Address, Config
from proxy.preflight.checks.check import Check
from proxy.preflight.checks.table import CHECKS
from proxy.preflight.facts import Facts, Unknown, Version
from proxy.preflight.gaps import gaps, not_asked

_TOOLS = (
    "Tools that ask brokers directly about groups (kafka_exporter, Burrow, AKHQ and others) can't be detected. To old "
    "ones a group that has moved looks as if it were gone: point them to the proxy, or see first what they show of one."
)
_MOMENT = "A preflight is true for the moment at which it asked: run it again before each wave of groups."
ADVICE = (_TOOLS, _MOMENT)

_HEAVY = frozenset(
    {
        "loop",
        "hidden_nodes",
        "proxy_state",
        "past_the_proxy",
        "static_duplicates",
        "translatable",
        "moved_together",
        "group_type",
        "way_back",
        "identity_rights",
    }
)


def acceptable() -> frozenset[str]:
    """The names that an operator may accept: those of checks, and of sources that did not answer."""
    return frozenset(check.name for check in CHECKS) | frozenset(Source)


def check_preflight(config: Config) -> None:
    """Check the names in the section ``preflight``.

    :raises ConfigError: there is no such check, or the release or the address has another form.
    """
    unknown = sorted(set(config.preflight.accept) - acceptable())
    if unknown:
        raise ConfigError(f"`preflight.accept`: there is no check {unknown[0]!r}")
    try:
        if config.preflight.kafka_version is not None:
            Version.parse(config.preflight.kafka_version)
    except ValueError as error:
        raise ConfigError(f"`preflight.kafka_version`: {error}") from None
    try:
        if config.preflight.replicas is not None:
            Address.parse(config.preflight.replicas)
    except ValueError as error:
        raise ConfigError(f"`preflight.replicas`: {error}") from None


def judge(facts: Facts, accepted: Collection[str] = ()) -> Report:
    """Apply every check. What the ``accepted`` checks and sources found is in the report and changes no status."""
    missing = _marked(gaps(facts), accepted)
    findings: list[Finding] = list(missing)
    outcomes: list[Outcome] = []
    for check in CHECKS:
        needs = not_asked(facts, check.sources)
        if needs is not None:
            outcomes.append(
                Outcome(check=check.name, status=Status.NOT_ASKED, meaning=check.meaning, needs=needs)
            )
            continue
        found = _marked(check.look(facts), accepted)
        findings += found
        outcomes.append(
            Outcome(check=check.name, status=_status(check, found, missing, accepted), meaning=check.meaning)
        )
    counted = [one for one in findings if not one.accepted]
    status = Status.PASSED
    if any(not one.unknown for one in counted):
        status = Status.FOUND
    elif counted:
        status = Status.UNKNOWN
    return Report(
        status=status,
        brokers=len(facts.known_brokers()),
        groups=0 if isinstance(facts.groups, Unknown) else len(facts.groups),
        to_move=len(facts.to_move),
        findings=tuple(sorted(findings, key=lambda one: (one.accepted, one.unknown, _rank(one.check)))),
        checks=tuple(outcomes),
        advice=ADVICE,
    )


def _rank(check: str) -> int:
    """Findings that stop or harm a move come first, bugs of brokers last."""
    if check in _HEAVY:
        return 0
    return 2 if check.startswith("bug_") else 1


def _marked(found: Iterable[Finding], accepted: Collection[str]) -> list[Finding]:
    return [msgspec.structs.replace(one, accepted=True) if one.check in accepted else one for one in found]


def _status(check: Check, found: list[Finding], missing: list[Finding], accepted: Collection[str]) -> Status:
    """How a check ended. It did not pass while anything that it needs is unknown."""
    mine = [*found, *(gap for gap in missing if check.name in gap.checks)]
    if not mine:
        return Status.PASSED
    if all(one.accepted or check.name in accepted for one in mine):
        return Status.ACCEPTED
    return Status.FOUND if any(not one.unknown and not one.accepted for one in mine) else Status.UNKNOWN
