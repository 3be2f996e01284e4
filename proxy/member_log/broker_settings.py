"""Asks a broker for a setting that decides what may be promised of a move, as far as the account may know it."""

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from proxy.member_log.topic import TIMEOUT_S

_MIGRATION_POLICY = "group.consumer.migration.policy"


def migration_policy(admin: AdminClient) -> str | None:
    """Return a broker's ``group.consumer.migration.policy`` in lower case. It blocks.

    None if it is not known: the account has no DESCRIBE_CONFIGS on the cluster, nobody answers, or the broker has no
    such setting. Brokers may differ; one is asked.
    """
    try:
        nodes = admin.list_topics(timeout=TIMEOUT_S).brokers
        if not nodes:
            return None
        resource = ConfigResource(ResourceType.BROKER, str(min(nodes)))
        answer = admin.describe_configs([resource], request_timeout=TIMEOUT_S)[resource]
        entry = answer.result(TIMEOUT_S + 1).get(_MIGRATION_POLICY)
    except (KafkaException, TimeoutError):
        return None
    return None if entry is None or entry.value is None else entry.value.lower()
