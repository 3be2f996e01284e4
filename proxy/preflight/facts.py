"""What is known of a cluster, its groups and a running proxy when a preflight judges them. Plain data.

Everything that has to be asked is either the answer or :class:`Unknown`, with the reason; nothing stands for an answer
that did not come. ``None`` means that it was not to be asked.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from typing import TypeVar

import msgspec

from protocol_codecs.messages.describe_groups import DescribedGroup
from proxy.config.schema import Config
from proxy.groups.snapshot import Snapshot
from translation.policy.policy import Mode, Policy, Rule
from translation.policy.rule_cache import RuleCache

T = TypeVar("T")

_NUMBER = re.compile(r"-?[0-9]{1,19}")


class Unknown(msgspec.Struct, frozen=True, tag=True):
    """Something that could not be learned: why, and what the operator can do about it."""

    why: str
    do: str


class BadProperty(Exception):
    """librdkafka does not take the account's properties; the message names them, not their values."""


class Kind(StrEnum):
    """The type of a group at the broker."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    OTHER = "other"
    """A share group or a streams group: tools that know consumer groups only can't tell which."""


class Apis(msgspec.Struct, frozen=True, kw_only=True):
    """What a broker answers to ApiVersions."""

    versions: Mapping[int, tuple[int, int]]
    """Lowest and highest version by API key."""
    features: Mapping[str, int]
    """The level that the cluster has finalized, by feature."""


class Broker(msgspec.Struct, frozen=True, kw_only=True):
    """A broker: its address in the cluster's metadata, and what it said of itself."""

    node_id: int
    host: str
    port: int
    apis: Apis | Unknown
    settings: Mapping[str, str] | Unknown
    """DescribeConfigs of the broker; settings without a value are left out."""


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A member of a group as the broker describes it."""

    member_id: str
    instance_id: str | None
    client_host: str


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """A group as the brokers have it."""

    group_id: str
    kind: Kind
    classic: DescribedGroup | None = None
    """The answer of DescribeGroups, with what its members sent; None if it is no classic group."""
    members: tuple[Member, ...] | Unknown = ()
    settings: Mapping[str, str] | Unknown = msgspec.field(default_factory=dict)
    """Its own dynamic settings (``consumer.session.timeout.ms`` and so on), without the brokers' defaults."""

    @property
    def size(self) -> int:
        """How many members it has, as far as they are described."""
        if self.classic is not None and self.classic.members:
            return len(self.classic.members)
        return 0 if isinstance(self.members, Unknown) else len(self.members)


class Acl(msgspec.Struct, frozen=True, kw_only=True):
    """One ACL. ``resource``, ``pattern``, ``operation`` and ``permission`` are Kafka's words in capitals."""

    resource: str
    name: str
    pattern: str
    principal: str
    host: str
    operation: str
    permission: str

    def covers(self, name: str) -> bool:
        """Whether it is about a resource of this name (of its own type)."""
        if self.pattern == "PREFIXED":
            return name.startswith(self.name)
        return self.name in ("*", name)

    def __str__(self) -> str:
        return (
            f"{self.permission} {self.operation} on {self.resource} {self.name} ({self.pattern}) for {self.principal} "
            f"from {self.host}"
        )


class Version(msgspec.Struct, frozen=True, order=True):
    """A release of Kafka."""

    major: int
    minor: int
    patch: int

    @classmethod
    def parse(cls, text: str) -> "Version":
        """Parse ``4.1.0``.

        :raises ValueError: the text has another form.
        """
        parts = text.split(".")
        if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) < 6 for part in parts):
            raise ValueError(f"expected a release such as 4.4.0, got {text!r}")
        return cls(*map(int, parts))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


class Facts(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """All of it. ``complete_groups`` is why the list of groups may lack some; None if it has all."""

    brokers: tuple[Broker, ...] | Unknown
    bootstrap: Mapping[str, Apis] = msgspec.field(default_factory=dict)
    """What addresses answered whose broker is not known, because the brokers want authentication."""
    groups: tuple[Group, ...] | Unknown
    complete_groups: Unknown | None = None
    acls: tuple[Acl, ...] | Unknown
    policy: Policy
    config: Config | None = None
    """The configuration of the proxy that is to be started; None if none was given."""
    taken_ports: Mapping[str, str] | None = None
    """Addresses of the configuration that can't be listened on here, with the reason; None if that was not tried."""
    proxy: Snapshot | Unknown | None = None
    """The groups of a running proxy; None if none was named."""
    complete_proxy: Unknown | None = None
    """Why a running proxy may not see all clients that come through one; None if it does, as far as it knows."""
    version: Version | None = None
    """The brokers' release, if the operator named it. Brokers do not tell theirs."""

    def rule(self, group_id: str) -> Rule:
        """The policy's rule for a group."""
        return self._rules.rule_for(group_id)

    @cached_property
    def _rules(self) -> RuleCache:
        return RuleCache(self.policy)

    @cached_property
    def to_move(self) -> tuple[Group, ...]:
        """The consumer groups, classic or new, that the policy translates. Without a list of groups there are none."""
        found = () if isinstance(self.groups, Unknown) else self.groups
        return tuple(
            group
            for group in found
            if group.kind is not Kind.OTHER and self.rule(group.group_id).mode is Mode.TRANSLATE
        )

    @cached_property
    def by_id(self) -> dict[str, Group]:
        """The groups by their ids."""
        return {} if isinstance(self.groups, Unknown) else {one.group_id: one for one in self.groups}

    def known_brokers(self) -> tuple[Broker, ...]:
        """The brokers; none if they could not be asked for."""
        return () if isinstance(self.brokers, Unknown) else self.brokers

    def settings(self) -> dict[int, Mapping[str, str]]:
        """The settings of the brokers that told them, by node id."""
        return {
            broker.node_id: broker.settings
            for broker in self.known_brokers()
            if not isinstance(broker.settings, Unknown)
        }

    def several_processes(self) -> bool:
        """Whether several processes serve the same clients and no member log tells them who serves whom."""
        config = self.config
        return config is not None and config.fleet is None and (not config.sole_process or config.workers > 1)


def number(settings: Mapping[str, str], name: str) -> int | None:
    """A setting that is a number of 64 bits; None if the broker has no such setting."""
    text = settings.get(name, "").strip()
    return int(text) if _NUMBER.fullmatch(text) else None


def names(settings: Mapping[str, str], name: str) -> tuple[str, ...] | None:
    """A setting that is a list of names; None if the broker has no such setting."""
    text = settings.get(name)
    return None if text is None else tuple(part.strip() for part in text.split(",") if part.strip())
