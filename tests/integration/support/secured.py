"""A broker that wants to know who its clients are: SASL and TLS listeners, ACLs, and how clients set themselves up.

Users are called as their passwords: alice has "alice-secret". On PLAINTEXT everybody is a super user, which is
how the tests themselves look at the broker and set ACLs.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tools.kafka.cluster import ExtraListener
from tools.kafka.tls_files import TlsFiles

USERS = ("alice", "bob", "Carol")
REAUTHENTICATION_MS = 10_000
"""The Java client renews a session in its last 5 to 15 %. A busy machine can stand still for 5 % of six seconds."""
BY_COMMON_NAME = "RULE:^.*CN=([^,]+).*$/$1/,DEFAULT"
"""`ssl.principal.mapping.rules` of the listener MUTUAL_TLS."""
_MODULES = "org.apache.kafka.common.security"


def secret(user: str) -> str:
    """The password of a user."""
    return f"{user}-secret"


def sasl_settings(*, reauthentication_ms: int | None = None) -> dict[str, str]:
    """The settings of a listener with SASL, by all mechanisms that need no Kerberos."""
    passwords = " ".join(f'user_{user}="{secret(user)}"' for user in USERS)
    settings = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "plain.sasl.jaas.config": f"{_MODULES}.plain.PlainLoginModule required {passwords};",
        "scram-sha-256.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
        "scram-sha-512.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
        "oauthbearer.sasl.jaas.config": f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required "
        'unsecuredLoginStringClaim_sub="nobody";',
    }
    if reauthentication_ms is not None:
        for mechanism in ("plain", "scram-sha-256", "scram-sha-512", "oauthbearer"):
            settings[f"{mechanism}.connections.max.reauth.ms"] = str(reauthentication_ms)
    return settings


def mutual_tls(tls: TlsFiles) -> ExtraListener:
    """The listener MUTUAL_TLS, whose clients are called as their certificates' common names."""
    settings = {"ssl.client.auth": "required", "ssl.principal.mapping.rules": BY_COMMON_NAME}
    return ExtraListener("MUTUAL_TLS", "SSL", {**tls.broker_settings(), **settings})


def secured_cluster(tls: TlsFiles, **options: Any) -> dict[str, Any]:
    """What makes a `Cluster` one of these; the listeners are SASL, REAUTH, SASL_TLS, TLS and MUTUAL_TLS."""
    on_tls = tls.broker_settings()
    return {
        "listeners": (
            ExtraListener("SASL", "SASL_PLAINTEXT", sasl_settings()),
            ExtraListener("REAUTH", "SASL_PLAINTEXT", sasl_settings(reauthentication_ms=REAUTHENTICATION_MS)),
            ExtraListener("SASL_TLS", "SASL_SSL", {**sasl_settings(), **on_tls}),
            ExtraListener("TLS", "SSL", on_tls),
            mutual_tls(tls),
        ),
        "format_options": [
            part
            for user in USERS
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
            for part in ("--add-scram", f"{mechanism}=[name={user},password={secret(user)}]")
        ],
        "overrides": {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        },
        **options,
    }


def allow(
    admin: AdminClient,
    user: str,
    resource: ResourceType,
    name: str,
    *operations: AclOperation,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
) -> None:
    """Let a user do this to one resource, or to all whose names match, from any host."""
    acls = [
        AclBinding(
            resource,
            name,
            pattern,
            f"User:{user}",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        for operation in operations
    ]
    for done in admin.create_acls(acls).values():
        done.result(timeout=60)


@dataclass(frozen=True)
class Login:
    """Who a client is and how it says so, in the words of each client."""

    user: str
    mechanism: str
    ca: Path | None = None

    def __str__(self) -> str:
        return f"{self.mechanism}{'' if self.ca is None else '-tls'}"

    def confluent(self) -> dict[str, object]:
        """For librdkafka."""
        settings: dict[str, object] = {
            "security.protocol": "SASL_PLAINTEXT" if self.ca is None else "SASL_SSL",
            "sasl.mechanism": self.mechanism,
        }
        if self.ca is not None:
            settings["ssl.ca.location"] = str(self.ca)
        if self.mechanism == "OAUTHBEARER":
            settings["enable.sasl.oauthbearer.unsecure.jwt"] = True
            settings["sasl.oauthbearer.config"] = f"principal={self.user} lifeSeconds=3600"
        else:
            settings |= {"sasl.username": self.user, "sasl.password": secret(self.user)}
        return settings

    def kafka_python(self) -> dict[str, object]:
        """For kafka-python, which has no unsecured OAUTHBEARER."""
        return {
            "security_protocol": "SASL_PLAINTEXT" if self.ca is None else "SASL_SSL",
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": self.user,
            "sasl_plain_password": secret(self.user),
            **({} if self.ca is None else {"ssl_cafile": str(self.ca)}),
        }

    def java(self) -> dict[str, object]:
        """For Kafka's own client."""
        if self.mechanism == "OAUTHBEARER":
            module = (
                f'oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="{self.user}"'
            )
        else:
            kind = "plain.Plain" if self.mechanism == "PLAIN" else "scram.Scram"
            module = f'{kind}LoginModule required username="{self.user}" password="{secret(self.user)}"'
        settings: dict[str, object] = {
            "security.protocol": "SASL_PLAINTEXT" if self.ca is None else "SASL_SSL",
            "sasl.mechanism": self.mechanism,
            "sasl.jaas.config": f"{_MODULES}.{module};",
        }
        if self.ca is not None:
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.ca)}
        return settings

    def settings(self, kind: str) -> dict[str, object]:
        """For a kind of client, by its name."""
        return {"confluent-kafka": self.confluent, "kafka-python": self.kafka_python, "java": self.java}[
            kind
        ]()
