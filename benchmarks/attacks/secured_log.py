"""A broker with ACLs, a member log that one account has to itself, and the configuration of a replica by the chart.

Clients and an administrator use the listener without authentication, where everybody is a super user. The log's account
has a listener with SASL, so that its rights can be withdrawn.
"""

import json
from collections.abc import Mapping
from typing import Any

from confluent_kafka.admin import AclOperation
from support.secured import sasl_settings, secret

from benchmarks.attacks.topic_changes import TopicOfLog
from tools.kafka.cluster import Cluster, ExtraListener

ACCOUNT = "bob"
LISTENER = ExtraListener("SASL", "SASL_PLAINTEXT", sasl_settings())
WITH_ACLS = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS",
}
PARTITIONS = 16
"""Of the log, as the chart has it."""
_RIGHTS = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
)


def topic_of_log(cluster: Cluster, name: str) -> TopicOfLog:
    """Make the topic of a member log, which the account may use, and return it."""
    topic = TopicOfLog(cluster.bootstrap, name, PARTITIONS, ACCOUNT)
    topic.make()
    topic.allow(*_RIGHTS)
    return topic


def journal_of_log(cluster: Cluster, name: str) -> Mapping[str, object]:
    """Let the account write the journal's topic, and return that section of the configuration."""
    TopicOfLog(cluster.bootstrap, name, 1, ACCOUNT).allow(*_RIGHTS)
    return {"topic": name}


def fleet_of_log(bootstrap: str, topic: str, *, authenticates: bool = True) -> dict[str, Any]:
    """Return the section `fleet`, with the chart's values but for the replication: there is one broker."""
    account = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": ACCOUNT,
        "sasl.password": secret(ACCOUNT),
    }
    return {
        "kafka": {"bootstrap.servers": bootstrap, **(account if authenticates else {})},
        "topic": topic,
        "partitions": PARTITIONS,
        "replication": 1,
        "expires": True,
        "resumes": True,
    }


def as_yaml(sections: Mapping[str, object]) -> str:
    """Return sections of the configuration, a line each: JSON is YAML."""
    return "".join(f"{name}: {json.dumps(value)}\n" for name, value in sections.items())
