"""The closed list of reasons that metrics count by: why a group or a call passed through, or was refused.

The reason of an event (:class:`translation.actions.Event`) is a text for people. It may name what a client sent, so
it must not become the value of a label. :func:`category` gives the category of such a text: one of
:data:`CATEGORIES`, whatever a client sends. The texts are told apart by their first words, which are this package's
own (``tests/translation/test_reasons.py`` finds all of them).
"""

from enum import StrEnum

from protocol_codecs import ErrorCode
from protocol_codecs.classic_clients import OPTIONS, Refusal, refusal_kind


class Reason(StrEnum):
    """A category of reasons."""

    TRANSLATABLE = "translatable"
    PROTOCOL_TYPE = Refusal.PROTOCOL_TYPE.value
    CONNECT = Refusal.CONNECT.value
    SCHEMA_REGISTRY = Refusal.SCHEMA_REGISTRY.value
    STREAMS = Refusal.STREAMS.value
    NO_PROTOCOL = Refusal.NO_PROTOCOL.value
    UNKNOWN_ASSIGNOR = Refusal.UNKNOWN_ASSIGNOR.value
    SUBSCRIPTION_USER_DATA = Refusal.SUBSCRIPTION_USER_DATA.value
    ASSIGNMENT_USER_DATA = Refusal.ASSIGNMENT_USER_DATA.value
    UNREADABLE = "subscription is not readable"
    OTHER_TYPE = "group of another type"
    OLD_BROKER = "no ConsumerGroupHeartbeat v1"
    CONVERSION_REFUSED = "broker refuses the conversion"
    NOT_CONVERTIBLE = "classic group is not convertible"
    STEPS = "the steps do not let it in"
    MEMBERS_REMAIN = "members have not left the classic group"
    PARTITIONS_ADDED = "partitions were added"
    PARTITIONS_REVOKED = "partitions are to be revoked"
    PARTITIONS_WITHHELD = "it claims partitions that are withheld"
    FOUND_AT_BROKER = "found at the broker"
    JOINS_AGAIN = "it joins again"
    NOT_KNOWN = "asked to rejoin before its conversion"
    OTHER = "other"


OBSERVED = "observed: "
"""What the reason begins with if the group passes through because the policy says ``observe``."""

ASKED_TO_REJOIN = "asked to rejoin: "
"""What the reason begins with if a client has to rejoin so that its member is known here."""

_NOT_CONVERTED = "not converted: "

_OTHERS = (
    ("the broker has no ConsumerGroupHeartbeat", Reason.OLD_BROKER),
    ("the subscription is not readable: ", Reason.UNREADABLE),
    ("the policy says that this is a ", Reason.OTHER_TYPE),
    ("its id belongs to a ", Reason.OTHER_TYPE),
    ("the broker answered ", Reason.CONVERSION_REFUSED),
    ("not all of its members have left it", Reason.MEMBERS_REMAIN),
    ("its step moves only a part of the group", Reason.STEPS),
    ("its steps need ", Reason.STEPS),
    (_NOT_CONVERTED, Reason.NOT_CONVERTIBLE),
    (ASKED_TO_REJOIN, Reason.NOT_KNOWN),
)
_WHOLE: dict[str, str] = {
    str(reason): str(reason)
    for reason in (
        Reason.TRANSLATABLE,
        Reason.PARTITIONS_ADDED,
        Reason.PARTITIONS_REVOKED,
        Reason.PARTITIONS_WITHHELD,
        Reason.FOUND_AT_BROKER,
        Reason.JOINS_AGAIN,
    )
} | {code.name: code.name for code in ErrorCode}

CATEGORIES = frozenset(
    {*Reason, *(f"{OBSERVED}{reason}" for reason in Reason), *(code.name for code in ErrorCode)}
)
"""Everything that :func:`category` can give."""


def category(reason: str) -> str:
    """The category of a reason: a name of an error code, a :class:`Reason`, or one after ``observed:``."""
    if reason.startswith(OBSERVED):
        return f"{OBSERVED}{_reason(reason.removeprefix(OBSERVED))}"
    return _WHOLE.get(reason) or _reason(reason)


def refusal_of(reason: str) -> Refusal | None:
    """What kind of client the reason says that the group has; None if it says something else."""
    return refusal_kind(reason.removeprefix(OBSERVED).removeprefix(_NOT_CONVERTED))


def options(reason: str | None) -> str | None:
    """What an operator can do about a group that passes through for this reason; None if nothing is known."""
    refused = None if reason is None else refusal_of(reason)
    return None if refused is None else OPTIONS[refused] or None


def _reason(reason: str) -> Reason:
    if reason == Reason.TRANSLATABLE:
        return Reason.TRANSLATABLE
    refused = refusal_of(reason)
    if refused is not None:
        return Reason(refused)
    return next((found for words, found in _OTHERS if reason.startswith(words)), Reason.OTHER)
