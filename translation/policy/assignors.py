"""Maps a classic client's assignors to the server-side one that stands in for them, unless the rule has an
``assignor``.

Which clients can be translated at all is in :mod:`protocol_codecs.classic_clients`, beside what those names mean.
"""

from collections.abc import Iterable, Mapping

SERVER_ASSIGNORS: Mapping[str, str] = {
    "range": "range",
    "roundrobin": "uniform",
    "sticky": "uniform",
    "cooperative-sticky": "uniform",
    "RoundRobinAssigner": "uniform",  # kafkajs
    "rack-affinity": "uniform",  # kafka-go
}
"""Classic assignor name (the protocol name in JoinGroup) -> server-side assignor of Kafka 4."""


def map_assignor(protocols: Iterable[str]) -> str:
    """The assignor for a client that offers these protocols, in its order of preference.

    Names that are not known here were allowed by the configuration; they get ``uniform``, the broker's default.
    """
    for name in protocols:
        return SERVER_ASSIGNORS.get(name, "uniform")
    return "uniform"


def is_cooperative(protocols: Iterable[str]) -> bool:
    """Whether the client keeps its partitions through a rebalance (KIP-429).

    A client is eager as soon as one of its assignors is. Nothing that has to be right depends on this: it only decides
    whether added partitions are collected before the client is told. What a client owns is what it reports.
    """
    names = list(protocols)
    return bool(names) and all("cooperative" in name for name in names)
