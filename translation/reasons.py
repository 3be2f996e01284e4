"""The closed list of reasons that metrics count by.

The reason of an event (:class:`translation.actions.Event`) is a text for people. It may name what a client sent, so
it must not become the value of a label. :func:`category` gives the category of such a text: one of
:data:`CATEGORIES`, whatever a client sends. The texts are told apart by their first words, which are this package's
own (``tests/translation/test_reasons.py`` finds all of them).
"""

from enum import StrEnum

from protocol_codecs import ErrorCode


class Reason(StrEnum):
    """A category of reasons."""

    TRANSLATABLE = "translatable"
    PROTOCOL_TYPE = "protocol type"
    NO_PROTOCOL = "no protocol"
    UNKNOWN_ASSIGNOR = "unknown assignor"
    UNREADABLE = "subscription is not readable"
    OTHER_TYPE = "group of another type"
    OLD_BROKER = "no ConsumerGroupHeartbeat v1"
    CONVERSION_REFUSED = "broker refuses the conversion"
    NOT_CONVERTIBLE = "classic group is not convertible"
    MEMBERS_REMAIN = "members have not left the classic group"
    PARTITIONS_ADDED = "partitions were added"
    PARTITIONS_REVOKED = "partitions are to be revoked"
    PARTITIONS_WITHHELD = "it claims partitions that are withheld"
    NO_SYNC_GROUP = "no SyncGroup came"
    FOUND_AT_BROKER = "found at the broker"
    JOINS_AGAIN = "it joins again"
    OTHER = "other"


OBSERVED = "observed: "
"""What the reason begins with if the group passes through because the policy says ``observe``."""

_NOT_CONVERTED = "not converted: "

_OF_THE_PROTOCOLS = (
    ("protocol type is ", Reason.PROTOCOL_TYPE),
    ("no protocol is offered", Reason.NO_PROTOCOL),
    ("assignor ", Reason.UNKNOWN_ASSIGNOR),
)
_OTHERS = (
    ("the broker has no ConsumerGroupHeartbeat", Reason.OLD_BROKER),
    ("the subscription is not readable: ", Reason.UNREADABLE),
    ("the policy says that this is a ", Reason.OTHER_TYPE),
    ("its id belongs to a ", Reason.OTHER_TYPE),
    ("the broker answered ", Reason.CONVERSION_REFUSED),
    ("not all of its members have left it", Reason.MEMBERS_REMAIN),
    (_NOT_CONVERTED, Reason.NOT_CONVERTIBLE),
)
_WHOLE: dict[str, str] = {
    str(reason): str(reason)
    for reason in (
        Reason.TRANSLATABLE,
        Reason.PARTITIONS_ADDED,
        Reason.PARTITIONS_REVOKED,
        Reason.PARTITIONS_WITHHELD,
        Reason.NO_SYNC_GROUP,
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


def _reason(reason: str) -> Reason:
    if reason == Reason.TRANSLATABLE:
        return Reason.TRANSLATABLE
    of_the_group = reason.removeprefix(_NOT_CONVERTED)
    for words, found in _OF_THE_PROTOCOLS:
        if of_the_group.startswith(words):
            return found
    return next((found for words, found in _OTHERS if reason.startswith(words)), Reason.OTHER)
