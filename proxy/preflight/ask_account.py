"""Asks the brokers what they tell an account only: settings, groups, ACLs. By librdkafka's admin client, which knows
every way to authenticate, in a process of its own (:mod:`proxy.preflight.account_process`).

Every request has a deadline, and several brokers are asked at once with a bound. Nothing is written, and no group is
joined.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import ConsumerGroupType, KafkaError, KafkaException
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    ConfigSource,
    ResourcePatternType,
    ResourceType,
)

from protocol_codecs.messages.describe_groups import DescribedGroup, DescribedGroupMember
from proxy.config.fleet import Property
from proxy.config.schema import Address
from proxy.preflight.account_messages import Answers
from proxy.preflight.ask_brokers import CONCURRENT, BrokerAddress, believable
from proxy.preflight.facts import Acl, BadProperty, Group, Kind, Member, Unknown
from translation.members.conversion import is_helper

T = TypeVar("T")

_GROUPS_AT_ONCE = 500
_POLL_S = 1.0
_REFUSED = {
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "Cluster",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "Group",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "Topic",
}
_FINAL = (
    KafkaError._AUTHENTICATION,  # noqa: SLF001  that is its public name
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError._SSL,  # noqa: SLF001
)
"""Errors after which trying again helps nothing."""
_UNSUPPORTED = (
    KafkaError._UNSUPPORTED_FEATURE,  # noqa: SLF001
    KafkaError.UNSUPPORTED_VERSION,
)
_BY_HAND = "see to it by hand, then --accept it"
_REACH_DO = (
    "see that the account's brokers are reached from here, and that its user name, password and CA are right"
)


def ask_account(properties: Mapping[str, Property], timeout_s: float) -> Answers:
    """Ask with these librdkafka properties; each request may take ``timeout_s``. It blocks.

    :raises BadProperty: they can't be used.
    """
    return _Account(properties, timeout_s).ask()


class _Account:
    def __init__(self, properties: Mapping[str, Property], timeout_s: float) -> None:
        self._errors: list[KafkaError] = []
        self._timeout_s = timeout_s
        self._may_list_all = False
        own: dict[str, Any] = {"log_level": 0, "client.id": "epochgate-preflight", **properties}
        try:
            self._admin = AdminClient(own | {"error_cb": self._errors.append})
        except KafkaException as error:
            raise BadProperty(error.args[0].str()) from None
        except (TypeError, ValueError) as error:
            raise BadProperty(str(error)) from None

    def ask(self) -> Answers:
        brokers = self._brokers()
        if isinstance(brokers, Unknown):
            return Answers(brokers=brokers, settings={}, groups=brokers, complete_groups=None, acls=brokers)
        with ThreadPoolExecutor(CONCURRENT) as pool:
            acls, groups = pool.submit(self._acls), pool.submit(self._groups)
            settings = dict(
                zip((one.node_id for one in brokers), pool.map(self._settings, brokers), strict=True)
            )
            return Answers(
                brokers=brokers,
                settings=settings,
                groups=groups.result(),
                complete_groups=self._complete(),
                acls=acls.result(),
            )

    def _brokers(self) -> tuple[BrokerAddress, ...] | Unknown:
        deadline = time.monotonic() + self._timeout_s
        why = ""
        while time.monotonic() < deadline:
            try:
                cluster = self._admin.describe_cluster(
                    include_authorized_operations=True, request_timeout=_POLL_S
                ).result(_POLL_S + 1)
            except KafkaException as error:
                why = error.args[0].str()
            else:
                self._may_list_all = AclOperation.DESCRIBE in (cluster.authorized_operations or ())
                return believable(
                    tuple(BrokerAddress(one.id, Address(one.host, one.port)) for one in cluster.nodes)
                )
            self._admin.poll(0)
            if any(error.code() in _FINAL for error in self._errors):
                break
        said = dict.fromkeys(error.str() for error in self._errors)
        return Unknown("; ".join([*said][-3:]) or why, _REACH_DO)

    def _settings(self, broker: BrokerAddress) -> dict[str, str] | Unknown:
        resource = ConfigResource(ResourceType.BROKER, str(broker.node_id))
        found = self._told(
            lambda: self._admin.describe_configs([resource], request_timeout=self._timeout_s)[resource],
            "DescribeConfigs",
        )
        if isinstance(found, Unknown):
            return found
        return {name: entry.value for name, entry in found.items() if entry.value is not None}

    def _complete(self) -> Unknown | None:
        """Why ListGroups may leave groups out: it has all of them only for who may describe the cluster."""
        if self._may_list_all:
            return None
        return Unknown(
            "the account may not describe the cluster, so brokers list only the groups that it may describe",
            _allow("Cluster", "Describe"),
        )

    def _acls(self) -> tuple[Acl, ...] | Unknown:
        if not self._may_list_all:  # librdkafka 2.16 shows the refusal as an empty list
            return Unknown("the account may not describe the cluster", _allow("Cluster", "Describe"))
        whatever: Any = None
        everything = AclBindingFilter(
            ResourceType.ANY,
            whatever,
            ResourcePatternType.ANY,
            whatever,
            whatever,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        found = self._told(
            lambda: self._admin.describe_acls(everything, request_timeout=self._timeout_s),
            "Describe",
            none_if=KafkaError.SECURITY_DISABLED,
        )
        if isinstance(found, Unknown):
            return found
        return tuple(
            Acl(
                resource="CLUSTER" if one.restype is ResourceType.BROKER else one.restype.name,
                name=one.name,
                pattern=one.resource_pattern_type.name,
                principal=one.principal,
                host=one.host,
                operation=one.operation.name,
                permission=one.permission_type.name,
            )
            for one in found or ()
        )

    def _groups(self) -> tuple[Group, ...] | Unknown:
        """Ask for groups in three ways, of which none tells everything.

        ListGroups has the types of consumer groups, DescribeGroups what the members of classic ones sent, and the
        description of consumer groups the instance ids.
        """
        listing = self._told(
            lambda: self._admin.list_consumer_groups(request_timeout=self._timeout_s), "Describe"
        )
        if isinstance(listing, Unknown):
            return listing
        if listing.errors:
            return Unknown("; ".join(sorted({str(error) for error in listing.errors})), _REACH_DO)
        kinds = {
            one.group_id: Kind.CONSUMER if one.type is ConsumerGroupType.CONSUMER else Kind.CLASSIC
            for one in listing.valid
        }
        try:
            # Deprecated, and the only call that has what members sent.
            described = {one.id: one for one in self._admin.list_groups(timeout=self._timeout_s)}
        except KafkaException as error:
            return self._unknown(error.args[0], "Describe")
        members = self._members(sorted(kinds))
        settings = self._group_settings(sorted(kinds))
        return tuple(
            _group(group_id, kinds.get(group_id), described.get(group_id), members, settings)
            for group_id in sorted({*kinds, *described})
        )

    def _members(self, group_ids: Sequence[str]) -> dict[str, tuple[Member, ...] | Unknown]:
        def ask(batch: list[str]) -> dict[str, Any]:
            return dict(self._admin.describe_consumer_groups(batch, request_timeout=self._timeout_s))

        def read(told: Any) -> tuple[Member, ...]:
            return tuple(
                Member(member_id=one.member_id, instance_id=one.group_instance_id, client_host=one.host)
                for one in told.members
                if not is_helper(one.member_id)
            )

        return self._of_each(group_ids, ask, read, "Describe")

    def _group_settings(self, group_ids: Sequence[str]) -> dict[str, dict[str, str] | Unknown]:
        def ask(batch: list[str]) -> dict[str, Any]:
            resources = [ConfigResource(ResourceType.GROUP, group_id) for group_id in batch]
            futures = self._admin.describe_configs(resources, request_timeout=self._timeout_s)
            return {resource.name: future for resource, future in futures.items()}

        def read(told: Any) -> dict[str, str]:
            return {
                name: entry.value
                for name, entry in told.items()
                if entry.value is not None and entry.source == ConfigSource.GROUP_CONFIG.value
            }

        return self._of_each(group_ids, ask, read, "DescribeConfigs")

    def _of_each(
        self,
        group_ids: Sequence[str],
        ask: Callable[[list[str]], dict[str, Any]],
        read: Callable[[Any], T],
        operation: str,
    ) -> dict[str, T | Unknown]:
        """Ask about groups, many at once. After a batch of which nobody answered the others are not asked any more."""
        found: dict[str, T | Unknown] = {}
        away: Unknown | None = None
        for at in range(0, len(group_ids), _GROUPS_AT_ONCE):
            batch = list(group_ids[at : at + _GROUPS_AT_ONCE])
            if away is not None:
                found |= dict.fromkeys(batch, away)
                continue
            told = {
                group_id: self._told(partial(_same, future), operation)
                for group_id, future in ask(batch).items()
            }
            found |= {
                group_id: one if isinstance(one, Unknown) else read(one) for group_id, one in told.items()
            }
            answers = list(told.values())
            if all(isinstance(one, Unknown) and one.do == _REACH_DO for one in answers):
                away = answers[0]
        return found

    def _told(self, ask: Callable[[], Any], operation: str, none_if: int | None = None) -> Any:
        """The answer to a request; :class:`Unknown` for an error, None for the error ``none_if``.

        ``operation`` is the right that the request needs.
        """
        try:
            return ask().result(self._timeout_s + 1)
        except KafkaException as error:
            return None if error.args[0].code() == none_if else self._unknown(error.args[0], operation)
        except TimeoutError:
            return Unknown(f"no answer within {self._timeout_s:g} s", _REACH_DO)
        except (
            TypeError,
            ValueError,
        ) as error:  # librdkafka does not take what a broker said, such as an empty id
            return Unknown(str(error), _BY_HAND)

    @staticmethod
    def _unknown(error: KafkaError, operation: str) -> Unknown:
        resource = _REFUSED.get(error.code())
        if error.code() in _UNSUPPORTED:
            return Unknown(error.str(), _BY_HAND)
        if resource is None:
            return Unknown(error.str(), _REACH_DO)
        return Unknown(f"the account may not ({error.name()})", _allow(resource, operation))


def _allow(resource: str, operation: str) -> str:
    named = "--cluster" if resource == "Cluster" else f"--{resource.lower()} '*'"
    return (
        f"kafka-acls.sh --bootstrap-server BROKER --add --allow-principal User:NAME --operation {operation} {named} "
        "(a right to read, which writes nothing)"
    )


def _group(
    group_id: str,
    listed: Kind | None,
    described: Any,
    members: Mapping[str, tuple[Member, ...] | Unknown],
    settings: Mapping[str, Mapping[str, str] | Unknown],
) -> Group:
    """Put together what is known of a group: ``listed`` among the consumer groups or not, ``described`` as classic."""
    kind = listed or (Kind.CLASSIC if described.protocol_type else Kind.OTHER)
    if kind is not Kind.CLASSIC:
        return Group(
            group_id=group_id,
            kind=kind,
            members=members.get(group_id, ()),
            settings=settings.get(group_id, {}),
        )
    if described is None or described.error is not None:
        why = "it was not there any more" if described is None else described.error.str()
        known: tuple[Member, ...] | Unknown = Unknown(why, "run the preflight again")
    elif group_id in members:
        known = members[group_id]
    else:  # no consumers but workers of Kafka Connect and the like, which only DescribeGroups v0 tells
        known = tuple(
            Member(member_id=one.id, instance_id=None, client_host=one.client_host)
            for one in described.members
        )
    return Group(
        group_id=group_id,
        kind=kind,
        classic=None if described is None else _classic(described),
        members=known,
        settings=settings.get(group_id, {}),
    )


def _classic(raw: Any) -> DescribedGroup:
    return DescribedGroup(
        error_code=0 if raw.error is None else raw.error.code(),
        group_id=raw.id,
        group_state=raw.state,
        protocol_type=raw.protocol_type,
        protocol_data=raw.protocol,
        members=tuple(
            DescribedGroupMember(
                member_id=one.id,
                client_id=one.client_id,
                client_host=one.client_host,
                member_metadata=one.metadata or b"",
                member_assignment=one.assignment or b"",
            )
            for one in raw.members
        ),
    )


def _same(future: Any) -> Any:
    return future
