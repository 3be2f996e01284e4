"""Makes the topic and the ACLs of the walkthrough, which Strimzi's operators make from KafkaTopic and KafkaUser.

Runs as a Job with the proxy's image. It may run again: what exists already stays.
"""

import os
import time

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

TIMEOUT_S = 180.0
MEMBER_LOG = "__epochgate_members"
JOURNAL = "epochgate-journal"
OFFSETS = "__consumer_offsets"
WANTED: dict[str, list[tuple[ResourceType, str, tuple[str, ...]]]] = {
    "epochgate": [
        (ResourceType.TOPIC, MEMBER_LOG, ("READ", "WRITE", "DESCRIBE", "DESCRIBE_CONFIGS", "CREATE")),
        (ResourceType.TOPIC, JOURNAL, ("WRITE", "DESCRIBE", "CREATE")),
    ],
    "epochgate-pipeline": [
        (ResourceType.TOPIC, JOURNAL, ("READ",)),
        (ResourceType.TOPIC, OFFSETS, ("READ",)),
        (ResourceType.TOPIC, "*", ("DESCRIBE",)),
        (ResourceType.BROKER, "kafka-cluster", ("DESCRIBE_CONFIGS",)),
        (ResourceType.GROUP, "spark-kafka-*", ("READ",)),
    ],
    "payments": [
        (ResourceType.TOPIC, "orders", ("READ", "WRITE", "DESCRIBE")),
        (ResourceType.GROUP, "payments", ("READ",)),
    ],
    "epochgate-test": [
        (ResourceType.TOPIC, "epochgate-test*", ("READ", "WRITE", "DESCRIBE", "CREATE")),
        (ResourceType.GROUP, "epochgate-test*", ("READ", "DESCRIBE")),
    ],
}
"""What each account may do; nothing else is allowed to it. A name that ends with * is a prefix; * alone is all."""
TOPICS = {"orders": 12, "epochgate-test-eager": 20, "epochgate-test-cooperative": 20}
"""Their partitions."""


def main() -> None:
    """Wait for the brokers, then make everything."""
    admin = AdminClient(
        {
            "bootstrap.servers": os.environ["BOOTSTRAP"],
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": "admin",
            "sasl.password": os.environ["PASSWORD"],
            "ssl.ca.location": "/etc/kafka-ca/ca.crt",
        }
    )
    wait_for_brokers(admin, 3)
    bindings = [
        AclBinding(kind, name.rstrip("*") or "*", pattern(name), f"User:{user}", "*", AclOperation[operation],
                   AclPermissionType.ALLOW)
        for user, rights in WANTED.items()
        for kind, name, operations in rights
        for operation in operations
    ]  # fmt: skip
    for done in admin.create_acls(bindings).values():
        done.result(30)
    for done in admin.create_topics(
        [NewTopic(name, partitions, 3) for name, partitions in TOPICS.items()]
    ).values():
        try:
            done.result(30)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
    print(f"{len(bindings)} ACLs for {', '.join(WANTED)}; topics {', '.join(TOPICS)}", flush=True)


def pattern(name: str) -> ResourcePatternType:
    """Return how an ACL means that name."""
    return ResourcePatternType.PREFIXED if name.rstrip("*") not in (name, "") else ResourcePatternType.LITERAL


def wait_for_brokers(admin: AdminClient, number: int) -> None:
    """Return when this many brokers are there, or raise the last error after TIMEOUT_S."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            found = len(admin.list_topics(timeout=5).brokers)
            problem: Exception = TimeoutError(f"{found} of {number} brokers after {TIMEOUT_S:.0f} s")
        except KafkaException as error:
            found, problem = 0, error
        if found >= number:
            return
        if time.monotonic() > deadline:
            raise problem
        time.sleep(1)


if __name__ == "__main__":
    main()
