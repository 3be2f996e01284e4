"""Looks up topic names and topic ids at the broker, with Metadata.

Members of the new protocol get topic ids, classic clients know names. Metadata finds one by the other since v12
(KIP-516).
"""

from collections.abc import Iterable

from protocol_codecs import ApiKey, ErrorCode, Uuid
from protocol_codecs.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from translation.actions import Call
from translation.members.environment import Environment
from translation.members.procedure import Procedure
from translation.partitions import Partitions

_BY_TOPIC_ID = 12
"""The first version of Metadata that takes topic ids."""


def learn_topic_names(
    environment: Environment, topic_names: dict[Uuid, str], partitions: Partitions
) -> Procedure[None]:
    """Ask the broker for the names of topics that are known by id only.

    A topic that the principal may not describe, or that is already deleted, stays without a name and its
    partitions are not handed out.
    """
    known = topic_names
    unknown = {topic_id for topic_id, _ in partitions if topic_id not in known}
    if not unknown:
        return
    request = MetadataRequest(
        topics=tuple(MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in sorted(unknown)),
        allow_auto_topic_creation=False,
    )
    response: MetadataResponse = yield Call(ApiKey.METADATA, _BY_TOPIC_ID, request)
    _keep_names(
        environment, topic_names, ((topic.topic_id, topic.name) for topic in response.topics if topic.name)
    )


def lookup_topics(
    environment: Environment, topic_names: dict[Uuid, str], topics: frozenset[str]
) -> Procedure[tuple[dict[str, Uuid], set[str]]]:
    """Ask the broker for topic ids; return them by name, and the names that the principal may not describe."""
    request = MetadataRequest(
        topics=tuple(MetadataRequestTopic(name=name) for name in sorted(topics)),
        allow_auto_topic_creation=False,
    )
    response: MetadataResponse = yield Call(ApiKey.METADATA, _BY_TOPIC_ID, request)
    found = {
        topic.name: topic.topic_id
        for topic in response.topics
        if topic.name and topic.error_code == ErrorCode.NONE
    }
    _keep_names(environment, topic_names, ((topic_id, name) for name, topic_id in found.items()))
    forbidden = {
        topic.name
        for topic in response.topics
        if topic.name and topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    }
    return found, forbidden


def lookup_sizes(topics: frozenset[str]) -> Procedure[dict[str, int]]:
    """Ask the broker how many partitions these topics have: 0 if there is no such topic.

    One that the principal may not describe, or of which the broker does not know it now, is left out.
    """
    request = MetadataRequest(
        topics=tuple(MetadataRequestTopic(name=name) for name in sorted(topics)),
        allow_auto_topic_creation=False,
    )
    response: MetadataResponse = yield Call(ApiKey.METADATA, _BY_TOPIC_ID, request)
    sizes = {
        topic.name: len(topic.partitions)
        for topic in response.topics
        if topic.name and topic.error_code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    }
    return {name: size for name, size in sizes.items() if name in topics}


def _keep_names(
    environment: Environment, topic_names: dict[Uuid, str], pairs: Iterable[tuple[Uuid, str]]
) -> None:
    """Keep names by topic id, the last ``known_topics_limit`` of them."""
    names = topic_names
    names.update(pairs)
    while len(names) > environment.settings.known_topics_limit:
        del names[next(iter(names))]
