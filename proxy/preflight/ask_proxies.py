"""Asks running proxies for their groups, puts together what several replicas see, and which replicas did not answer.

A replica knows its own clients. Of others it knows, with a member log, who they are and which translated members they
serve; so a view that lacks replicas says so (:attr:`Seen.lacks`), and nothing counts as absent because they were not
asked.
"""

import socket
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from proxy.admin.admin_client import NO_CREDENTIALS, Credentials, NoAnswerError, fetch_groups
from proxy.config.document import ConfigError
from proxy.config.schema import Address
from proxy.groups.fleet_view import FleetMember, FleetView, GroupFleet
from proxy.groups.snapshot import GroupView, Snapshot, merge
from proxy.preflight.facts import Unknown

MOST_REPLICAS = 200
_AT_ONCE = 10
_NAMED = 5
_RUNS_DO = "name the admin port of a proxy that runs, as `epochgate status --admin` takes it"
_EACH_DO = (
    "ask all replicas: each by a --proxy, or all by --replicas (`preflight.replicas` in the configuration)"
)
_STATES = ("ready", "reading", "away", "refused")


class Seen(msgspec.Struct, frozen=True):
    """What proxies see of their groups, and why that may not be all; None if it is, as far as they know themselves."""

    snapshot: Snapshot | Unknown | None
    lacks: Unknown | None = None


def ask_proxies(
    urls: Sequence[str], service: str | None, timeout_s: float, credentials: Credentials = NO_CREDENTIALS
) -> Seen:
    """Ask the proxies at these URLs, and at each address of the name in the URL ``service``. It blocks."""
    if not urls and service is None:
        return Seen(None)
    try:
        of_service = [] if service is None else _addresses(service)
    except OSError as error:
        return Seen(Unknown(f"{service}: {error.strerror or error}", _RUNS_DO))
    every = dict.fromkeys(urls, credentials)
    for url in of_service:  # by addresses, which no certificate has
        every.setdefault(url, replace(credentials, server_name=urlsplit(service).hostname))
    asked = list(every)[:MOST_REPLICAS]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = list(pool.map(lambda url: _fetch(url, timeout_s, every[url]), asked))
    found = [one for one in answers if isinstance(one, Snapshot)]
    failures = [one for one in answers if isinstance(one, NoAnswerError)]
    if not found:
        return Seen(Unknown("; ".join(map(str, failures[:_NAMED])), _RUNS_DO))
    snapshot = together(found)
    if failures:
        return Seen(snapshot, Unknown("; ".join(map(str, failures[:_NAMED])), _RUNS_DO))
    if len(every) > MOST_REPLICAS:
        return Seen(snapshot, Unknown(f"at most {MOST_REPLICAS} replicas are asked", _EACH_DO))
    return Seen(snapshot, _lacks(snapshot.fleet))


def _fetch(url: str, timeout_s: float, credentials: Credentials) -> Snapshot | NoAnswerError:
    try:
        return fetch_groups(url, Snapshot, timeout_s=timeout_s, events=True, credentials=credentials)
    except NoAnswerError as error:
        return error
    except ConfigError as error:  # a file of the credentials has changed
        return NoAnswerError(f"{url}: {error}")


def _addresses(service: str) -> list[str]:
    """The URLs of every address of a name, in one family: a pod with two of them is asked once.

    :raises OSError: the name has no address.
    """
    parts = urlsplit(service)
    port = parts.port or 80
    try:
        found = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(str(error)) from error
    families = {family for family, *_ in found}
    chosen = socket.AF_INET if socket.AF_INET in families else socket.AF_INET6
    return [f"{parts.scheme}://{Address(str(at[0]), port)}" for family, *_, at in found if family == chosen]


def _lacks(fleet: FleetView | None) -> Unknown | None:
    """The replicas of the member log that were not asked; None if there are none of which it knows."""
    if fleet is None:
        return None
    others = sorted(one.name or one.id for one in fleet.replicas if not one.here and not one.silent)
    left_out = len(others) - _NAMED + fleet.replicas_left_out
    if not others and not fleet.replicas_left_out:
        return None
    named = ", ".join(others[:_NAMED]) + (f" and {left_out} more" if left_out > 0 else "")
    return Unknown(f"other replicas serve clients too, and were not asked: {named}", _EACH_DO)


def together(snapshots: Sequence[Snapshot]) -> Snapshot:
    """Put together what replicas see: what one sees of a group adds to what another does, also of the member log."""
    if len(snapshots) == 1:
        return snapshots[0]
    merged = merge(snapshots)
    fleets = [one.fleet for one in snapshots if one.fleet is not None]
    if not fleets:
        return merged
    parts: dict[str, list[GroupFleet]] = {}
    for group in chain.from_iterable(one.groups for one in snapshots):
        if group.fleet is not None:
            parts.setdefault(group.id, []).append(group.fleet)
    return replace(
        merged,
        groups=tuple(_with_fleet(group, parts.get(group.id, [])) for group in merged.groups),
        fleet=_fleet(fleets),
    )


def _with_fleet(group: GroupView, parts: Sequence[GroupFleet]) -> GroupView:
    if not parts:
        return group
    here = {member.id for member in group.members}
    elsewhere = _first_of_each(one for part in parts for one in part.elsewhere if one.id not in here)
    fleet = GroupFleet(
        members=len(here) + sum(one.state == "served" for one in elsewhere),
        served_by=(),
        elsewhere=elsewhere,
        left_out=min(part.left_out for part in parts),
    )
    return replace(group, fleet=fleet)


def _first_of_each(members: Iterable[FleetMember]) -> tuple[FleetMember, ...]:
    found: dict[str, FleetMember] = {}
    for one in members:
        found.setdefault(one.id, one)
    return tuple(found.values())


def _fleet(views: Sequence[FleetView]) -> FleetView:
    """The member log as the one sees it for whom it is the least healthy; ``here`` is a replica that was asked."""
    worst = max(views, key=lambda one: _STATES.index(one.state) if one.state in _STATES else len(_STATES))
    asked = {replica.id for view in views for replica in view.replicas if replica.here}
    every = {replica.id: replica for view in views for replica in view.replicas}
    replicas = tuple(replace(one, here=one.id in asked) for one in every.values())
    left_out = max(0, max(len(view.replicas) + view.replicas_left_out for view in views) - len(replicas))
    return replace(worst, replicas=replicas, replicas_left_out=left_out)
