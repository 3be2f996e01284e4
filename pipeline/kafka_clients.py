"""Connects librdkafka's clients, and says in one line why that can't be.

librdkafka tries for ever, whatever the reason, and answers calls by "timed out" alone: the reason comes by its error
callback. A refused login or certificate ends the attempt at once, since no further one would do better.
"""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from pipeline.errors import PipelineError
from pipeline.kafka_settings import for_librdkafka

if TYPE_CHECKING:
    from confluent_kafka import Consumer
    from confluent_kafka.admin import AdminClient

C = TypeVar("C")

TIMEOUT_S = 30.0
"""How long brokers may take to answer the first call."""
_FIRST_LOOK_S = 0.5
_POLL_S = 1.0
_TOPIC_AUTHORIZATION_FAILED = 29
_NO_GROUP = "epochgate"
"""librdkafka demands a group of every consumer. None of the pipeline's joins it or commits."""
_READS_BY_ASSIGNMENT = {
    "group.id": _NO_GROUP,
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "earliest",
}


def admin(bootstrap: str, settings: Mapping[str, str]) -> "AdminClient":
    """Return an admin client whose brokers have answered. Raises PipelineError."""
    _check_library()
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415 - only where brokers are asked

    return _connected(bootstrap, settings, {}, AdminClient)


def consumer(bootstrap: str, settings: Mapping[str, str], **others: object) -> "Consumer":
    """Return a consumer whose brokers have answered, to read by assignment. Raises PipelineError."""
    _check_library()
    from confluent_kafka import Consumer  # noqa: PLC0415

    return _connected(bootstrap, settings, {**_READS_BY_ASSIGNMENT, **others}, Consumer)


def may_read(bootstrap: str, topic: str, settings: Mapping[str, str]) -> bool:
    """Whether a topic may be read, if it exists at all. Nothing is created or committed, and no group is joined.

    Raises PipelineError if the cluster does not answer.
    """
    error = _why_not(bootstrap, topic, settings)
    return error is None or bool(error.code() != _TOPIC_AUTHORIZATION_FAILED)


def check_readable(bootstrap: str, topic: str, settings: Mapping[str, str]) -> None:
    """Raise PipelineError, with the reason, if a topic can't be read."""
    error = _why_not(bootstrap, topic, settings)
    if error is None:
        return
    if error.code() == _TOPIC_AUTHORIZATION_FAILED:
        raise PipelineError(
            f"{bootstrap}: {topic} may not be read by this account: READ on this topic is what it takes"
        )
    raise PipelineError(f"{bootstrap}: topic {topic}: {error.str()}")


def _why_not(bootstrap: str, topic: str, settings: Mapping[str, str]) -> Any:
    """Return the KafkaError of a topic that can't be read; None if it can."""
    reader = consumer(bootstrap, settings)
    from confluent_kafka import KafkaException, TopicPartition  # noqa: PLC0415

    try:
        described = reader.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
        if described.error is not None:
            return described.error
        reader.assign([TopicPartition(topic, min(described.partitions), 0)])
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            message = reader.poll(_POLL_S)
            error = None if message is None else message.error()
            if error is not None and error.code() == _TOPIC_AUTHORIZATION_FAILED:
                return error
            if message is not None and message.topic() == topic:  # a record, or the partition's end
                return None
        raise PipelineError(f"{bootstrap} does not say whether {topic} may be read")
    except KafkaException as error:
        raise failure(bootstrap, error) from None
    finally:
        reader.close()


def failure(bootstrap: str, error: Exception) -> PipelineError:
    """Return a KafkaException as an error of one line."""
    inner: Any = error.args[0] if error.args else error
    return PipelineError(f"{bootstrap}: {inner.str() if hasattr(inner, 'str') else inner}")


def _check_library() -> None:
    try:
        import confluent_kafka  # noqa: F401, PLC0415
    except ModuleNotFoundError as error:
        raise PipelineError(
            f"{error.name} is not installed: "
            "pip install '.[pipeline]' in a checkout of Epochgate brings what connects to brokers"
        ) from None


def _connected(
    bootstrap: str, settings: Mapping[str, str], own: Mapping[str, object], kind: Callable[[Any], C]
) -> C:
    from confluent_kafka import KafkaException  # noqa: PLC0415

    said: list[Any] = []
    try:
        client: Any = kind(
            {
                "bootstrap.servers": bootstrap,
                "log_level": 0,
                **own,
                **for_librdkafka(settings),
                "error_cb": said.append,
            }
        )
    except KafkaException as error:
        raise failure("the settings of the Kafka client", error) from None
    try:
        _wait_for_answer(bootstrap, client, said)
    except BaseException:
        if hasattr(client, "close"):
            client.close()
        raise
    found: C = client
    return found


def _wait_for_answer(bootstrap: str, client: Any, said: list[Any]) -> None:
    from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415

    final = {
        KafkaError._AUTHENTICATION: "does not accept the login",  # noqa: SLF001 - the library's public names
        KafkaError._SSL: "can't be reached by TLS",  # noqa: SLF001
    }
    deadline, look_s = time.monotonic() + TIMEOUT_S, _FIRST_LOOK_S
    while True:
        try:
            client.list_topics(timeout=look_s)
        except KafkaException as error:
            look_s *= 2  # a cluster with many topics takes a while, a refusal comes in the first moments
            client.poll(0)
            for one in said:
                if one.code() in final:
                    raise PipelineError(f"{bootstrap} {final[one.code()]}: {one.str()}") from None
            if time.monotonic() > deadline:
                why = said[-1].str() if said else error.args[0].str()
                raise PipelineError(f"{bootstrap} does not answer: {why}") from None
        else:
            return
