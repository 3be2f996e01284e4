"""What brokers tell an account, and how the process that asks (:mod:`proxy.preflight.account_process`) sends it.

Groups come in frames of their own, since there may be thousands of them; then :class:`Rest`, once.
"""

from collections.abc import Mapping

import msgspec

from protocol_codecs.foreign import MsgpackDecoder
from protocol_codecs.messages.describe_groups import DescribedGroup
from proxy.config.fleet import Property
from proxy.preflight.ask_brokers import BrokerAddress
from proxy.preflight.facts import Acl, Group, Kind, Member, Unknown
from proxy.runtime.frames import message_decoder

GROUPS_IN_FRAME = 200
MAX_GROUP_BYTES = 4 * 1024 * 1024


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """What an account is told; each is the answer or why there is none."""

    brokers: tuple[BrokerAddress, ...] | Unknown
    settings: Mapping[int, Mapping[str, str] | Unknown]
    groups: tuple[Group, ...] | Unknown
    complete_groups: Unknown | None
    acls: tuple[Acl, ...] | Unknown


class Ask(msgspec.Struct, frozen=True):
    """The first and only question: with which librdkafka properties, and how many seconds each request may take."""

    properties: dict[str, Property]
    timeout_s: float


class BadAccount(msgspec.Struct, frozen=True, tag=True):
    """librdkafka does not take the properties."""

    reason: str


class Settings(msgspec.Struct, frozen=True, tag=True):
    """Settings by name."""

    values: dict[str, str]


class SentGroup(msgspec.Struct, frozen=True):
    """See :class:`proxy.preflight.facts.Group`."""

    group_id: str
    kind: Kind
    classic: DescribedGroup | None
    members: tuple[Member, ...] | Unknown
    settings: Settings | Unknown

    @classmethod
    def of(cls, group: Group) -> "SentGroup":
        """Return what is sent of a group."""
        return cls(group.group_id, group.kind, group.classic, group.members, _sent(group.settings))

    def group(self) -> Group:
        """Return the group."""
        return Group(
            group_id=self.group_id,
            kind=self.kind,
            classic=self.classic,
            members=self.members,
            settings=_received(self.settings),
        )


class Groups(msgspec.Struct, frozen=True, tag=True):
    """Some groups."""

    groups: list[SentGroup]


class Rest(msgspec.Struct, frozen=True, tag=True):
    """All else. ``groups`` is None if they came before."""

    brokers: tuple[BrokerAddress, ...] | Unknown
    settings: dict[int, Settings | Unknown]
    groups: Unknown | None
    complete_groups: Unknown | None
    acls: tuple[Acl, ...] | Unknown

    @classmethod
    def of(cls, answers: Answers) -> "Rest":
        """Return what is sent beside the groups."""
        return cls(
            answers.brokers,
            {node_id: _sent(one) for node_id, one in answers.settings.items()},
            answers.groups if isinstance(answers.groups, Unknown) else None,
            answers.complete_groups,
            answers.acls,
        )

    def answers(self, groups: tuple[Group, ...]) -> Answers:
        """Return the whole, with the groups that came before."""
        return Answers(
            brokers=self.brokers,
            settings={node_id: _received(one) for node_id, one in self.settings.items()},
            groups=groups if self.groups is None else self.groups,
            complete_groups=self.complete_groups,
            acls=self.acls,
        )


ENCODER = msgspec.msgpack.Encoder()
QUESTION = msgspec.msgpack.Decoder(Ask)
Sent = Groups | Rest | BadAccount
ANSWERS: MsgpackDecoder[Sent] = message_decoder(Sent)


def _sent(settings: Mapping[str, str] | Unknown) -> Settings | Unknown:
    return settings if isinstance(settings, Unknown) else Settings(dict(settings))


def _received(settings: Settings | Unknown) -> Mapping[str, str] | Unknown:
    return settings if isinstance(settings, Unknown) else settings.values
