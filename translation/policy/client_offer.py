"""What a classic client offers and owns by its JoinGroup, as far as it decides whether and how it is translated
(``assignors_allowed``).
"""

import msgspec

from protocol_codecs import MalformedMessage
from protocol_codecs.classic_clients import (
    KNOWN_ASSIGNORS,
    RACK_AFFINITY,
    Offer,
    Refused,
    is_rack_aware,
    refusal,
)
from protocol_codecs.errors import TooManyElements
from protocol_codecs.messages.consumer_protocol import (
    decode_subscription,
    has_user_data,
    lacks_owned_partitions,
)
from protocol_codecs.messages.join_group import JoinGroupRequest
from translation.policy.policy import Policy, Rule

_CONSUMER = "consumer"
_MOST_ELEMENTS = 2_000
_RACK_VERSION = 3
_KEPT = 16
_KEPT_CHARACTERS = 255


class ClientOffer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The protocol type and the assignors of a JoinGroup.

    ``user_data`` are those of the assignors whose subscription carries user data, where that matters. ``rack_aware``
    says that the client names a rack and an assignor that may assign by it.
    """

    protocol_type: str
    assignors: tuple[str, ...]
    user_data: tuple[str, ...]
    rack_aware: bool

    def refused(self, policy: Policy, rule: Rule) -> Refused | None:
        """Why a client with this offer can't be translated, whatever the mode; None if it can."""
        offers = [Offer(name, name in self.user_data) for name in self.assignors]
        return refusal(
            self.protocol_type, offers, policy.assignors_allowed, assignor_is_set=rule.assignor is not None
        )

    @property
    def bounded(self) -> "ClientOffer | None":
        """This, if it is small enough to be kept: no client of this world offers so many, or such long names."""
        names = (self.protocol_type, *self.assignors)
        small = len(names) <= _KEPT and all(len(name) <= _KEPT_CHARACTERS for name in names)
        return self if small else None


def offer_of(message: JoinGroupRequest, *, rack: bool = True) -> ClientOffer:
    """Read what a JoinGroup offers; without ``rack``, only what decides whether it can be translated.

    A subscription that can't be read counts as one without user data and rack.
    """
    names = tuple(protocol.name for protocol in message.protocols)
    if message.protocol_type != _CONSUMER or not names:
        return ClientOffer(
            protocol_type=message.protocol_type, assignors=names, user_data=(), rack_aware=False
        )
    user_data = tuple(
        protocol.name
        for protocol in message.protocols
        if (protocol.name not in KNOWN_ASSIGNORS or protocol.name == RACK_AFFINITY)
        and _has_user_data(protocol.metadata)
    )
    offers = (Offer(name, name in user_data) for name in names)
    return ClientOffer(
        protocol_type=message.protocol_type,
        assignors=names,
        user_data=user_data,
        rack_aware=rack and is_rack_aware(offers, _rack(message.protocols[0].metadata)),
    )


def why_not_translated(message: JoinGroupRequest, policy: Policy, rule: Rule) -> str | None:
    """Why this client can't be translated, whatever the mode of its group; None if it can."""
    refused = offer_of(message, rack=False).refused(policy, rule)
    return None if refused is None else refused.text


def lacks_owned_list(message: JoinGroupRequest) -> bool:
    """Whether a JoinGroup has a subscription that brokers can't read in a consumer group, as kafka-go's."""
    try:
        return lacks_owned_partitions(message.protocols[0].metadata)
    except MalformedMessage:
        return False  # join_group.py says that it is not readable


def owns_partitions(message: JoinGroupRequest) -> bool:
    """Whether a JoinGroup reports owned partitions, so that the membership of its client must not end yet."""
    try:
        _, subscription = decode_subscription(message.protocols[0].metadata)
    except MalformedMessage:
        return False
    return any(owned.partitions for owned in subscription.owned_partitions)


def _has_user_data(metadata: bytes) -> bool:
    try:
        return has_user_data(metadata)
    except MalformedMessage:
        return False  # join_group.py says that it is not readable


def _rack(metadata: bytes) -> str | None:
    """The rack of a subscription; None if it is too large to be read for that alone."""
    if int.from_bytes(metadata[:2], "big") < _RACK_VERSION:
        return None
    try:
        return decode_subscription(metadata, _MOST_ELEMENTS)[1].rack_id
    except (MalformedMessage, TooManyElements):
        return None
