"""What a preflight could not learn, once for each source and reason, with the checks that lack it."""

from collections.abc import Iterable, Iterator

from proxy.admin.preflight_report import Finding, Source
from proxy.preflight.checks.check import nodes
from proxy.preflight.checks.settings import TOLD
from proxy.preflight.checks.table import CHECKS
from proxy.preflight.facts import Facts, Kind, Unknown

NOT_ASKED = {
    Source.CONFIGURATION: "--config",
    Source.PORTS: "--config without --proxy",
    Source.PROXY: "--proxy",
    Source.VERSION: "--kafka-version",
}
"""The option that a source needs, where one may be left out."""


def gaps(facts: Facts) -> Iterator[Finding]:
    """Yield a finding for everything that was to be learned and was not."""
    if isinstance(facts.brokers, Unknown):
        yield _gap(Source.BROKERS, "which brokers there are", facts.brokers)
    yield from _of_brokers(facts)
    if isinstance(facts.groups, Unknown):
        yield _gap(Source.GROUPS, "which groups there are", facts.groups)
    elif facts.complete_groups is not None:
        yield _gap(Source.GROUPS, "whether these are all groups", facts.complete_groups)
    yield from _of_groups(facts)
    if isinstance(facts.acls, Unknown):
        yield _gap(Source.ACLS, "the ACLs", facts.acls)
    if isinstance(facts.proxy, Unknown):
        yield _gap(Source.PROXY, "what the running proxy sees", facts.proxy)
    elif facts.complete_proxy is not None:
        yield _gap(Source.PROXY, "what all replicas see", facts.complete_proxy)


def not_asked(facts: Facts, sources: Iterable[Source]) -> str | None:
    """The option without which these sources are not asked; None if all are."""
    absent = {
        Source.CONFIGURATION: facts.config is None,
        Source.PORTS: facts.taken_ports is None,
        Source.PROXY: facts.proxy is None,
        Source.VERSION: facts.version is None,
    }
    return next((NOT_ASKED[one] for one in sorted(sources) if absent.get(one)), None)


def _of_brokers(facts: Facts) -> Iterator[Finding]:
    for source, what in (
        (Source.API_VERSIONS, "the API versions of {}"),
        (Source.SETTINGS, "the settings of {}"),
    ):
        lacking: dict[Unknown, list[int]] = {}
        for broker in facts.known_brokers():
            told = broker.apis if source is Source.API_VERSIONS else broker.settings
            if isinstance(told, Unknown):
                lacking.setdefault(told, []).append(broker.node_id)
        for why, ids in lacking.items():
            yield _gap(source, what.format(nodes(ids)), why)
    yield from _left_out(facts)


def _left_out(facts: Facts) -> Iterator[Finding]:
    expected = frozenset(name for names in TOLD.values() for name in names)
    lacking: dict[frozenset[str], list[int]] = {}
    for node, settings in facts.settings().items():
        lacking.setdefault(expected.difference(settings), []).append(node)
    for missing, ids in lacking.items():
        if missing:
            yield Finding(
                check=Source.SETTINGS.value,
                unknown=True,
                what=f"{nodes(ids)}: not told are {', '.join(sorted(missing))}",
                do="ask whoever runs the brokers what these settings are, then --accept settings",
                checks=tuple(check for check, names in TOLD.items() if not missing.isdisjoint(names)),
            )


def _of_groups(facts: Facts) -> Iterator[Finding]:
    members: dict[Unknown, list[str]] = {}
    settings: dict[Unknown, list[str]] = {}
    for group in () if isinstance(facts.groups, Unknown) else facts.groups:
        if group.kind is Kind.OTHER:
            continue
        if isinstance(group.members, Unknown):
            members.setdefault(group.members, []).append(group.group_id)
        if isinstance(group.settings, Unknown):
            settings.setdefault(group.settings, []).append(group.group_id)
    for why, ids in members.items():
        yield _gap(Source.GROUPS, "the members of these groups", why, ids)
    for why, ids in settings.items():
        yield _gap(Source.GROUP_SETTINGS, "the settings of these groups", why, ids)


def _gap(source: Source, what: str, unknown: Unknown, groups: Iterable[str] = ()) -> Finding:
    return Finding(
        check=source.value,
        unknown=True,
        what=f"{what}: {unknown.why}",
        groups=tuple(sorted(groups)),
        do=unknown.do,
        checks=tuple(check.name for check in CHECKS if source in check.sources),
    )
