"""Whether a client's protocol type and assignors can be translated, and the reason if not, by what clients of classic
groups put into JoinGroup and SyncGroup.

The protocol type of a JoinGroup says whose group it is. Consumers also name their assignors, and each assignor may put
user data beside the subscription: that is for the group's leader, which computes the assignment. The leader may put
user data beside each member's assignment too. Under KIP-848 the broker assigns, and its assignors see none of that.

The proxy and the data pipeline both judge by this file, so that a report before the migration says what the proxy does.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

KNOWN_ASSIGNORS = frozenset(
    {"range", "roundrobin", "sticky", "cooperative-sticky", "RoundRobinAssigner", "rack-affinity"}
)
"""Assignors for which one of the broker's stands in, whatever user data they send.

The Java client's ``sticky`` sends what its member had and in which generation, ``cooperative-sticky`` the generation
alone: the broker knows both. kafka-go's ``rack-affinity`` sends the zone (:func:`is_rack_aware`).
"""

STREAMS = "stream"
"""The name of Kafka Streams' assignor. Its clients need the user data of assignments, so it has no substitute."""

CONNECT, SCHEMA_REGISTRY = "connect", "sr"
"""The protocol types of Kafka Connect's workers and of Confluent's Schema Registry."""

RACK_AFFINITY = "rack-affinity"
RACK_AWARE_ASSIGNORS = frozenset({"range", "sticky", "cooperative-sticky", RACK_AFFINITY})
"""The known assignors that prefer partitions of the member's own rack (the first three since Kafka 3.5, KIP-881)."""

RACKS_IGNORED = (
    "its clients name their racks, and an assignor that may assign by them: the broker's range and uniform ignore "
    "racks, so a member may get partitions without a replica in its own; reading from the closest replica (KIP-392) "
    "remains"
)
"""What a translated group loses whose clients :func:`is_rack_aware` is true of."""

LOST_AT_ONCE = (
    "brokers convert such a group only while it is empty, so all its members rejoin at once; those with a cooperative "
    "assignor, and those that joined before this proxy started, lose their partitions: records since the last commit "
    "are read again, and an application that commits in onPartitionsLost can end (Java's consumer calls "
    "onPartitionsRevoked there by default, Reactor Kafka does so too)"
)
"""What a move costs a group whose assignments carry user data (librdkafka's cooperative-sticky, sarama's sticky) or
whose subscriptions brokers can't read (kafka-go)."""


class Refusal(StrEnum):
    """A kind of group that is not translated; the value is a category of the proxy's metrics."""

    NO_PROTOCOL = "no protocol"
    CONNECT = "Kafka Connect"
    SCHEMA_REGISTRY = "schema registry"
    PROTOCOL_TYPE = "protocol type"
    """Other clients that are no consumers."""
    STREAMS = "Kafka Streams"
    UNKNOWN_ASSIGNOR = "unknown assignor"
    """No user data in the subscriptions, so the operator may vouch for it."""
    SUBSCRIPTION_USER_DATA = "user data in subscriptions"
    ASSIGNMENT_USER_DATA = "user data in assignments"


OPTIONS: Mapping[Refusal, str] = {
    Refusal.NO_PROTOCOL: "",
    Refusal.CONNECT: "no broker assigns its tasks: leave it classic",
    Refusal.SCHEMA_REGISTRY: "it elects a leader and has no partitions: leave it classic",
    Refusal.PROTOCOL_TYPE: "no consumers, so no broker assigns for them: leave it classic",
    Refusal.STREAMS: (
        "leave it classic, or move it offline: stop all its instances, then start them with group.protocol=streams "
        "(Kafka 4.2 or newer)"
    ),
    Refusal.UNKNOWN_ASSIGNOR: (
        "name it in the policy's assignors_allowed, to have range or uniform instead; or port it to the brokers "
        "(group.consumer.assignors), name it there too and the port in the rule's assignor; or leave it classic"
    ),
    Refusal.SUBSCRIPTION_USER_DATA: (
        "no broker sees that data: name the assignor in the policy's assignors_allowed, and in the rule's assignor "
        "what assigns without the data (range, uniform, or a port of it in group.consumer.assignors); or leave it "
        "classic"
    ),
    Refusal.ASSIGNMENT_USER_DATA: (
        "no broker makes that data, and its clients may need it: give them an assignor without, or leave it classic"
    ),
}
"""What an operator can do about each, as the end of a sentence; empty if there is nothing."""

_TEXTS: Mapping[Refusal, str] = {
    Refusal.UNKNOWN_ASSIGNOR: "assignor {} is unknown",
    Refusal.SUBSCRIPTION_USER_DATA: "user data in the subscriptions of assignor {}",
    Refusal.ASSIGNMENT_USER_DATA: "user data in the assignments of assignor {}",
}
_FIRST_WORDS: Sequence[tuple[str, Refusal]] = (
    ("no protocol is offered", Refusal.NO_PROTOCOL),
    (f"protocol type is {CONNECT!r}, ", Refusal.CONNECT),
    (f"protocol type is {SCHEMA_REGISTRY!r}, ", Refusal.SCHEMA_REGISTRY),
    ("protocol type is ", Refusal.PROTOCOL_TYPE),
    (f"assignor {STREAMS!r} is of Kafka Streams", Refusal.STREAMS),
    ("user data in the subscriptions of ", Refusal.SUBSCRIPTION_USER_DATA),
    ("user data in the assignments of ", Refusal.ASSIGNMENT_USER_DATA),
    ("assignor ", Refusal.UNKNOWN_ASSIGNOR),
)


class Offer(NamedTuple):
    """An assignor that a client offers in JoinGroup, and whether its subscription or assignment carries user data."""

    name: str
    subscription_user_data: bool = False
    assignment_user_data: bool = False


class Refused(NamedTuple):
    """Why a group is not translated: the kind, and a text that names what the client sent."""

    kind: Refusal
    text: str


def refusal(
    protocol_type: str, offers: Iterable[Offer], allowed: Container[str], *, assignor_is_set: bool
) -> Refused | None:
    """Why a client with this protocol type and these assignors can't be translated; None if it can.

    ``allowed`` are further assignors that the operator vouches for. One that sends user data is refused all the same,
    unless ``assignor_is_set``: the operator has also said what shall assign for this group without that data.
    """
    if protocol_type != "consumer":
        kind = {CONNECT: Refusal.CONNECT, SCHEMA_REGISTRY: Refusal.SCHEMA_REGISTRY}.get(
            protocol_type, Refusal.PROTOCOL_TYPE
        )
        return Refused(kind, f"protocol type is {protocol_type!r}, not 'consumer'")
    offers = list(offers)
    if not offers:
        return Refused(Refusal.NO_PROTOCOL, "no protocol is offered")
    if any(offer.name == STREAMS for offer in offers):
        return Refused(Refusal.STREAMS, f"assignor {STREAMS!r} is of Kafka Streams")
    for offer in offers:
        kind_of = _refusal_of(offer, allowed, assignor_is_set=assignor_is_set)
        if kind_of is not None:
            return Refused(kind_of, _TEXTS[kind_of].format(repr(offer.name)))
    return None


def _refusal_of(offer: Offer, allowed: Container[str], *, assignor_is_set: bool) -> Refusal | None:
    if offer.name in KNOWN_ASSIGNORS:
        return None
    if offer.assignment_user_data:
        return Refusal.ASSIGNMENT_USER_DATA
    is_allowed = offer.name in allowed
    if offer.subscription_user_data and not (is_allowed and assignor_is_set):
        return Refusal.SUBSCRIPTION_USER_DATA
    return None if is_allowed else Refusal.UNKNOWN_ASSIGNOR


def refusal_kind(text: str) -> Refusal | None:
    """The kind that a text of :class:`Refused` is of; None if it is none of these. Clients may be hostile: whatever
    they put into the text, it begins with words of this file."""
    return next((kind for words, kind in _FIRST_WORDS if text.startswith(words)), None)


def is_rack_aware(offers: Iterable[Offer], rack: str | None) -> bool:
    """Whether these assignors may assign by the rack that the client names.

    ``rack`` is that of the subscription (KIP-881). kafka-go sends it as user data. An assignor that is not known may
    read the rack as well.
    """
    return any(
        (bool(rack) and (offer.name in RACK_AWARE_ASSIGNORS or offer.name not in KNOWN_ASSIGNORS))
        or (offer.name == RACK_AFFINITY and offer.subscription_user_data)
        for offer in offers
    )
