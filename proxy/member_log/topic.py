"""Makes the topic of the member log (``fleet.topic``, ``partitions``, ``replication``), or checks that its settings
are what the member log's argument needs; else it is refused.

What differs is refused with the command that mends it: a topic that is compacted too early, or deletes by size, makes
replicas disagree (:mod:`translation.member_log.counting`).
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from confluent_kafka.cimpl import NewTopic

from proxy.config.fleet import Fleet
from proxy.member_log.refusals import TopicRefused
from translation.member_log.counting import COMPACTION_LAG_MS, RETENTION_MS

T = TypeVar("T")

TIMEOUT_S = 10.0
"""Seconds for each request to the brokers."""

_PAUSE_S = 0.1
_NOT_KNOWN_YET = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001  that is its public name
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
)

FORBIDDEN = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})
"""A right of the account is missing."""

_REQUIRED = {
    "cleanup.policy": "compact,delete",
    "retention.ms": str(RETENTION_MS),
    "retention.bytes": "-1",
    "segment.bytes": str(32 * 1024 * 1024),
    "segment.ms": str(3_600_000),
    "min.cleanable.dirty.ratio": "0.1",
    "min.compaction.lag.ms": str(COMPACTION_LAG_MS),
    "max.compaction.lag.ms": str(2 * COMPACTION_LAG_MS),
    "message.timestamp.type": "LogAppendTime",
    "unclean.leader.election.enable": "false",
}


class TopicIdentity(NamedTuple):
    """What may not change while the log is used."""

    topic_id: str
    partitions: int


class FoundTopic(NamedTuple):
    """The topic as the brokers describe it."""

    identity: TopicIdentity
    replication: int


class PreparedTopic(NamedTuple):
    """The topic that is to be used; ``wrong`` says which settings differ and what mends them, None if none does."""

    identity: TopicIdentity
    wrong: str | None


def required_settings(replication: int) -> dict[str, str]:
    """The settings of the topic, by its replication factor."""
    return {**_REQUIRED, "min.insync.replicas": "2" if replication >= 3 else "1"}


def prepare_topic(admin: AdminClient, fleet: Fleet) -> PreparedTopic:
    """Make the topic if it is missing, and check it.

    :raises TopicRefused: it has another number of partitions, or the account may not.
    """
    found = identify_topic(admin, fleet)
    if found is None:
        _create(admin, fleet)
        found = _await_topic(admin, fleet)
    identity, replication = found
    if identity.partitions != fleet.partitions:
        raise TopicRefused(
            f"the topic {fleet.topic} has {identity.partitions} partitions, and `fleet.partitions` is "
            f"{fleet.partitions}: all replicas have to say the same, and it can't be changed"
        )
    return PreparedTopic(identity, when_known(lambda: wrong_settings(admin, fleet, replication)))


def when_known(ask: Callable[[], T]) -> T:
    """Ask a broker about the topic; again for a while, if it does not know of it. It blocks.

    Not every broker knows at once of a topic that was just made, by this replica or by another that started with it.

    :raises KafkaException: as ``ask`` does, at last.
    """
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() not in _NOT_KNOWN_YET or time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE_S)


def _await_topic(admin: AdminClient, fleet: Fleet) -> FoundTopic:
    """The topic that was just made, once a broker knows all of it."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        found = identify_topic(admin, fleet)
        if found is not None and found.identity.partitions == fleet.partitions:
            return found
        time.sleep(_PAUSE_S)
    raise TopicRefused(f"the topic {fleet.topic} was made, and the brokers do not show it; start again")


def identify_topic(admin: AdminClient, fleet: Fleet) -> FoundTopic | None:
    """The topic as it is now; None if there is none.

    :raises TopicRefused: the account may not.
    :raises KafkaException: the brokers do not answer.
    """
    futures = admin.describe_topics(TopicCollection([fleet.topic]), request_timeout=TIMEOUT_S)
    try:
        topic = futures[fleet.topic].result(TIMEOUT_S + 1)
    except KafkaException as error:
        code = error.args[0].code()
        if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            _refuse_access(fleet, "describe")
        raise
    replication = min((len(partition.replicas) for partition in topic.partitions), default=0)
    return FoundTopic(TopicIdentity(str(topic.topic_id), len(topic.partitions)), replication)


def _create(admin: AdminClient, fleet: Fleet) -> None:
    settings = required_settings(fleet.replication)
    topic = NewTopic(fleet.topic, fleet.partitions, fleet.replication, config=settings)
    try:
        admin.create_topics([topic], operation_timeout=TIMEOUT_S, request_timeout=TIMEOUT_S)[
            fleet.topic
        ].result()
    except KafkaException as error:
        code = error.args[0].code()
        if code == KafkaError.TOPIC_ALREADY_EXISTS:  # another replica was faster
            return
        raise TopicRefused(
            f"the topic {fleet.topic} is missing and can't be made here ({error.args[0].str()}). Make it: "
            + create_command(fleet)
        ) from None


def create_command(fleet: Fleet) -> str:
    """The command that makes the topic."""
    settings = " ".join(
        f"--config {name}={value}" for name, value in required_settings(fleet.replication).items()
    )
    return (
        f"kafka-topics.sh --bootstrap-server {_brokers(fleet)} --create --topic {fleet.topic} "
        f"--partitions {fleet.partitions} --replication-factor {fleet.replication} {settings}"
    )


def wrong_settings(admin: AdminClient, fleet: Fleet, replication: int) -> str | None:
    """Say which settings of the topic differ from those it has to have, and what mends them; None if none does.

    :raises TopicRefused: the account may not describe them.
    :raises KafkaException: the brokers do not answer.
    """
    required = required_settings(replication)
    resource = ConfigResource(ResourceType.TOPIC, fleet.topic)
    try:
        described = admin.describe_configs([resource], request_timeout=TIMEOUT_S)[resource].result(
            TIMEOUT_S + 1
        )
    except KafkaException as error:
        if error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            _refuse_access(fleet, "describe the settings of")
        raise
    wrong = {
        name: described[name].value
        for name, value in required.items()
        if name not in described or _normal(described[name].value) != _normal(value)
    }
    if not wrong:
        return None
    found = ", ".join(f"{name}={value}" for name, value in wrong.items())
    mended = " ".join(f"--add-config '{name}=[{required[name]}]'" for name in wrong)
    return (
        f"the topic {fleet.topic} has {found}. Change it: kafka-configs.sh --bootstrap-server {_brokers(fleet)} "
        f"--alter --entity-type topics --entity-name {fleet.topic} {mended}"
    )


def _normal(value: Any) -> object:
    """Without the order of a list, which has no meaning."""
    return frozenset(part.strip() for part in str(value).split(","))


def _refuse_access(fleet: Fleet, what: str) -> NoReturn:
    raise TopicRefused(
        f"the account of `fleet.kafka` may not {what} the topic {fleet.topic}. {access_hint(fleet)}"
    )


def access_hint(fleet: Fleet) -> str:
    """Which rights the account needs, with the command that gives them."""
    return (
        "It needs READ, WRITE, DESCRIBE and DESCRIBE_CONFIGS on it (and CREATE, if it is to make it): "
        f"kafka-acls.sh --bootstrap-server {_brokers(fleet)} --add --allow-principal User:NAME --operation Read "
        f"--operation Write --operation Describe --operation DescribeConfigs --topic {fleet.topic}"
    )


def _brokers(fleet: Fleet) -> str:
    return str(fleet.kafka.get("bootstrap.servers", "BROKERS"))
