"""Reads what readiness needs from a cluster besides its offsets topic: topic names and ids, and group settings."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from pipeline import kafka_clients
from pipeline.errors import PipelineError
from protocol_codecs.foreign import JsonDecoder, Undecodable

CLUSTER_FILE = "cluster.json"
OFFSETS_TOPIC = "__consumer_offsets"
SHARE_STATE_TOPIC = "__share_group_state"
NO_RIGHT_TO_SHARE_STATE = (
    f"{SHARE_STATE_TOPIC} may not be read: the table share_partitions stays empty, all else is complete. "
    f"READ on this topic is what it takes"
)
_TIMEOUT_S = 30.0
_MOST_BYTES = 256 * 1024 * 1024


class Topic(msgspec.Struct, frozen=True):
    """A topic; the id in Kafka's text form."""

    name: str
    id: str
    partitions: int


class BrokerSettings(msgspec.Struct, frozen=True):
    """Kafka's settings of groups, with Kafka's defaults. Times are milliseconds."""

    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_max_size: int = 2_147_483_647
    group_consumer_assignors: str = "uniform"
    group_consumer_migration_policy: str = "bidirectional"
    group_share_delivery_count_limit: int = 5


class Cluster(msgspec.Struct, frozen=True):
    """The topics and settings of a cluster at ``time_ms`` (milliseconds since 1970)."""

    topics: tuple[Topic, ...] = ()
    settings: BrokerSettings = BrokerSettings()
    time_ms: int = 0

    @property
    def topic_names(self) -> dict[str, str]:
        """Return topic names by id."""
        return {topic.id: topic.name for topic in self.topics}

    def partitions(self, topic: str) -> int:
        """Return the number of partitions of a topic; 0 if it does not exist."""
        return next((one.partitions for one in self.topics if one.name == topic), 0)

    def save(self, folder: Path) -> None:
        """Save topics and settings beside the captured records; :meth:`load` reads them."""
        (folder / CLUSTER_FILE).write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1))

    @classmethod
    def load(cls, folder: Path) -> "Cluster":
        """Read what ``save`` wrote. Raises PipelineError."""
        file = folder / CLUSTER_FILE
        try:
            return cls.decoded(file.read_bytes(), str(file))
        except OSError as error:
            raise PipelineError(f"{file} cannot be read: {error}") from error

    @classmethod
    def decoded(cls, content: bytes, file: str) -> "Cluster":
        """Decode what ``save`` wrote into a file of this name. Raises PipelineError."""
        try:
            return JsonDecoder(cls, _MOST_BYTES).decode(content)
        except Undecodable as error:
            raise PipelineError(f"{file} cannot be read: {error}") from error


def id_text(base64: str) -> str:
    """Return a topic id as Kafka writes it, with ``-`` and ``_``: librdkafka has ``+`` and ``/`` there."""
    return base64.replace("+", "-").replace("/", "_")


def ask(bootstrap: str, client_settings: Mapping[str, str] | None = None) -> Cluster:
    """Read topics and settings from a running cluster. Raises PipelineError if it does not answer."""
    admin = kafka_clients.admin(bootstrap, client_settings or {})
    from confluent_kafka import KafkaException, TopicCollection  # noqa: PLC0415 - only where brokers are asked

    try:
        names = sorted(admin.list_topics(timeout=_TIMEOUT_S).topics)
        asked = admin.describe_topics(TopicCollection(names), request_timeout=_TIMEOUT_S)
        described = [future.result() for future in asked.values()]
        topics = tuple(Topic(one.name, id_text(str(one.topic_id)), len(one.partitions)) for one in described)
        return Cluster(topics, _settings(admin), int(time.time() * 1000))
    except KafkaException as error:
        raise PipelineError(
            f"{bootstrap} does not say what is asked: {error.args[0].str()}. It takes DESCRIBE on topics and "
            "DESCRIBE_CONFIGS on the cluster"
        ) from None


def _settings(admin: Any) -> BrokerSettings:
    """Return the settings of one broker; those that it lacks (older than Kafka 4) keep their defaults."""
    # The library types its re-exports as private; these are the classes themselves.
    from confluent_kafka.admin._config import ConfigResource  # noqa: PLC0415
    from confluent_kafka.admin._resource import ResourceType  # noqa: PLC0415

    broker = min(admin.list_topics(timeout=_TIMEOUT_S).brokers)
    (answer,) = admin.describe_configs([ConfigResource(ResourceType.BROKER, str(broker))]).values()
    told = {name.replace(".", "_"): entry.value for name, entry in answer.result(timeout=_TIMEOUT_S).items()}
    return msgspec.convert(
        {name: value for name, value in told.items() if value is not None}, BrokerSettings, strict=False
    )
