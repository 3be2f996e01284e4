"""Clients with certificates, the account that makes delegation tokens for them, and a proxy that does both."""

import contextlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cryptography import x509
from kio.schema.create_acls.v3.request import AclCreation, CreateAclsRequest
from kio.schema.delete_acls.v3.request import DeleteAclsFilter, DeleteAclsRequest
from kio.schema.describe_delegation_token.v3.request import DescribeDelegationTokenRequest
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.static.primitive import i8

from proxy.identity.distinguished_name import rfc2253
from support.entry import Proxy, running_proxy
from support.raw import PlainLogin, RawConnection
from support.secured import sasl_settings, secret
from tools.kafka.cluster import Cluster, ExtraListener
from tools.kafka.tls_files import TlsFiles

GATE = "gate"
"""The account."""
ADMIN = PlainLogin("Carol", secret("Carol"))
"""A super user."""
FORMAT_OPTIONS = ("--add-scram", f"SCRAM-SHA-512=[name={GATE},password={secret(GATE)}]")
"""What gives a new cluster the account."""
TOKENS = {"delegation.token.secret.key": "a key of these tests"}
"""What lets brokers make tokens."""

_BROKER_LOGGER = i8(8)
_USER, _LITERAL, _PREFIXED, _ALLOW, _CREATE_TOKENS = i8(7), i8(3), i8(4), i8(3), i8(13)


def cluster_with_tokens(**options: Any) -> dict[str, Any]:
    """What makes a `Cluster` one with StandardAuthorizer, tokens, the account, and a listener SASL."""
    return {
        "listeners": (ExtraListener("SASL", "SASL_PLAINTEXT", sasl_settings()),),
        "format_options": FORMAT_OPTIONS,
        "overrides": {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:Carol",
            **TOKENS,
        },
        **options,
    }


class Client:
    """A client with a certificate; ``principal`` is the name of its subject, as Kafka has it."""

    def __init__(self, tls: TlsFiles, name: str) -> None:
        self.name = name
        self.certificate, self.key = tls.issue(name)
        self.ca = tls.ca
        subject = x509.load_pem_x509_certificates(self.certificate.read_bytes())[0].subject
        self.principal = rfc2253(subject.public_bytes())
        store = self.certificate.with_name(f"{name}-store.pem")
        store.write_bytes(self.key.read_bytes() + self.certificate.read_bytes())
        self._store = store

    def confluent(self) -> dict[str, object]:
        """For librdkafka."""
        return {
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.ca),
            "ssl.certificate.location": str(self.certificate),
            "ssl.key.location": str(self.key),
        }

    def java(self) -> dict[str, object]:
        """For Kafka's own client."""
        return {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._store),
        }

    def kafka_python(self) -> dict[str, object]:
        """For kafka-python."""
        return {
            "security_protocol": "SSL",
            "ssl_cafile": str(self.ca),
            "ssl_certfile": str(self.certificate),
            "ssl_keyfile": str(self.key),
        }

    def franz_go(self) -> dict[str, object]:
        """For the driver on franz-go, whose library takes a tls.Config."""
        return {"ca": str(self.ca), "certificate": str(self.certificate), "key": str(self.key)}

    def kafkajs(self) -> dict[str, object]:
        """For kafkajs, which takes the options of Node's tls.connect."""
        return {
            "ssl": {
                "ca": [self.ca.read_text()],
                "cert": self.certificate.read_text(),
                "key": self.key.read_text(),
            }
        }

    def settings(self, kind: str) -> dict[str, object]:
        """For a kind of client, by its name."""
        return {
            "confluent-kafka": self.confluent,
            "java": self.java,
            "kafka-python": self.kafka_python,
            "franz-go": self.franz_go,
            "kafkajs": self.kafkajs,
        }[kind]()


def allow_tokens(cluster: Cluster, principal: str, *, prefixed: bool = False) -> None:
    """Let the account make tokens for this principal, or for all whose names begin so. librdkafka knows no such
    resource."""
    acl = AclCreation(
        resource_type=_USER,
        resource_name=f"User:{principal}",
        resource_pattern_type=_PREFIXED if prefixed else _LITERAL,
        principal=f"User:{GATE}",
        host="*",
        operation=_CREATE_TOKENS,
        permission_type=_ALLOW,
    )
    with _super_user(cluster) as admin:
        (result,) = admin.call(CreateAclsRequest(creations=(acl,))).results
    assert result.error_code == 0, result.error_message


def withdraw_tokens(cluster: Cluster, principal: str) -> None:
    """Take that right away."""
    acl = DeleteAclsFilter(
        resource_type_filter=_USER,
        resource_name_filter=f"User:{principal}",
        pattern_type_filter=_LITERAL,
        principal_filter=f"User:{GATE}",
        host_filter="*",
        operation=_CREATE_TOKENS,
        permission_type=_ALLOW,
    )
    with _super_user(cluster) as admin:
        (result,) = admin.call(DeleteAclsRequest(filters=(acl,))).filter_results
    assert (result.error_code, len(result.matching_acls)) == (0, 1), result


def token_owners(cluster: Cluster) -> list[str]:
    """The owners of all tokens that the brokers have."""
    with RawConnection(cluster.bootstrap_of("SASL").split(",")[0], login=ADMIN) as admin:
        answer = admin.call(DescribeDelegationTokenRequest(owners=None))
    assert answer.error_code == 0
    return [one.principal_name for one in answer.tokens]


def log_what_is_allowed(cluster: Cluster) -> None:
    """Let the brokers' authorizers log what they allow, beside what they deny (KIP-412)."""
    debug = AlterableConfig(name="kafka.authorizer.logger", config_operation=i8(0), value="DEBUG")
    for broker in cluster.brokers:
        of_broker = AlterConfigsResource(
            resource_type=_BROKER_LOGGER, resource_name=str(broker.node_id), configs=(debug,)
        )
        with RawConnection(broker.address) as admin:
            request = IncrementalAlterConfigsRequest(resources=(of_broker,), validate_only=False)
            (result,) = admin.call(request).responses
        assert result.error_code == 0, result.error_message


def authorized(cluster: Cluster, resource: str) -> dict[str, set[str]]:
    """{user: the APIs that brokers let it use on this resource}, by the authorizers' log. Super users are left out.

    `resource` is as in the log, such as `Topic:LITERAL:orders`.
    """
    line = re.compile(
        rf"Principal = User:(.+?) is Allowed .* on resource = {re.escape(resource)} for request = (\w+)"
    )
    found: dict[str, set[str]] = {}
    for broker in cluster.brokers:
        for user, api in line.findall(broker.log.read_text(errors="replace")):
            if user != "ANONYMOUS":
                found.setdefault(user, set()).add(api)
    return found


@contextlib.contextmanager
def certificate_proxy(
    cluster: Cluster,
    tls: TlsFiles,
    folder: Path,
    *,
    identity: Mapping[str, object] | None = None,
    listener: Mapping[str, object] | None = None,
    **options: Any,
) -> Iterator[Proxy]:
    """A proxy that demands certificates and authenticates as their principals, by delegation tokens.

    `identity` and `listener` are added to the keys of that name, and `options` are those of Proxy.
    """
    certificate, key = tls.issue(f"proxy-{folder.name}")
    folder.mkdir(parents=True, exist_ok=True)
    password = folder / "password"
    password.write_text(secret(GATE))
    account = {"username": GATE, "password_file": str(password)}
    with running_proxy(
        cluster.bootstrap_of("SASL"),
        folder,
        listener_tls={
            "certificate": str(certificate),
            "key": str(key),
            "client_ca": str(tls.ca),
            "client_auth": "required",
        },
        listener={"identity": "delegation_token", **(listener or {})},
        more={
            "identity": {"allow": [".*"], "account": account, "plaintext_upstream": True, **(identity or {})}
        },
        **options,
    ) as proxy:
        yield proxy


def identity_count(proxy: Proxy, name: str, result: str) -> float:
    """`epochgate_identity_<name>_total` with this result."""
    found = re.search(
        rf'^epochgate_identity_{name}_total{{result="{result}"}} (\S+)$', proxy.metrics(), re.MULTILINE
    )
    return float(found[1]) if found else 0.0


def _super_user(cluster: Cluster) -> RawConnection:
    return RawConnection(cluster.bootstrap.split(",")[0])
