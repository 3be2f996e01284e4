"""Preflight: whether every broker can do what translated members need: ApiVersions, which brokers answer to
anybody.
"""

from protocol_codecs import ApiKey
from proxy.admin.preflight_report import Finding, Source
from proxy.preflight.checks.check import Check, Found, nodes
from proxy.preflight.facts import Apis, Facts

_HEARTBEAT_VERSION = 1
_GROUP_VERSION = "group.version"


def _apis(facts: Facts) -> dict[str, Apis]:
    """What brokers answer, by node id, and by address where that is all that is known of a broker."""
    known = {str(one.node_id): one.apis for one in facts.known_brokers() if isinstance(one.apis, Apis)}
    return {**known, **facts.bootstrap}


def _heartbeat(facts: Facts) -> Found:
    lacking = {
        node: apis
        for node, apis in _apis(facts).items()
        if apis.versions.get(ApiKey.CONSUMER_GROUP_HEARTBEAT, (0, -1))[1] < _HEARTBEAT_VERSION
    }
    # A gateway takes the APIs that it does not know out of the brokers' answer, and leaves their features in.
    hidden = [node for node, apis in lacking.items() if apis.features.get(_GROUP_VERSION, 0) >= 1]
    without = f"without ConsumerGroupHeartbeat (API 68) v{_HEARTBEAT_VERSION}"
    unchanged = "members whose group has its coordinator there pass through unchanged"
    if old := [node for node in lacking if node not in hidden]:
        yield Finding(
            check="heartbeat_api",
            what=f"{nodes(old)} {without}: {unchanged}",
            do="upgrade every broker to Kafka 4.0 or newer before the first group moves",
        )
    if hidden:
        yield Finding(
            check="heartbeat_api",
            what=f"{nodes(hidden)} {without}, although the feature {_GROUP_VERSION} 1 is finalized: {unchanged}",
            do="a gateway between Epochgate and the brokers hides the API: upgrade it, or connect to the brokers "
            "without it (docs/how-to/behind-other-gateways.md). If there is none, upgrade every broker to Kafka 4.0 or "
            "newer",
        )


def _group_version(facts: Facts) -> Found:
    lacking = [node for node, apis in _apis(facts).items() if apis.features.get(_GROUP_VERSION, 0) < 1]
    if lacking:
        yield Finding(
            check="group_version",
            what=f"{nodes(lacking)} without the finalized feature {_GROUP_VERSION} 1: the new protocol is off, and "
            "every ConsumerGroupHeartbeat is refused",
            do=f"kafka-features.sh --bootstrap-server BROKER upgrade --feature {_GROUP_VERSION}=1",
        )


def _mixed(facts: Facts) -> Found:
    alike: dict[tuple[tuple[int, tuple[int, int]], ...], list[str]] = {}
    for node, apis in _apis(facts).items():
        alike.setdefault(tuple(sorted(apis.versions.items())), []).append(node)
    if len(alike) > 1:
        sides = " and ".join(nodes(ids) for ids in sorted(alike.values()))
        yield Finding(
            check="mixed_versions",
            what=f"{sides} serve different versions of the APIs: they are of different releases",
            do="finish the upgrade of the brokers first: what a group is told would change when its coordinator moves",
        )


_SOURCES = frozenset({Source.BROKERS, Source.API_VERSIONS})
CHECKS = (
    Check("heartbeat_api", "Every broker has ConsumerGroupHeartbeat v1.", _SOURCES, _heartbeat),
    Check(
        "group_version", "The feature `group.version` is finalized at 1 or higher.", _SOURCES, _group_version
    ),
    Check("mixed_versions", "All brokers are of one release.", _SOURCES, _mixed),
)
