"""Which of librdkafka's properties the member log's account may have: where the brokers are, and how to speak to them.

Every other is refused by name. Some would change what the log rests on, some take the consumer for a group's, some load
a library or are functions, and no number in a configuration is one.
"""

RESERVED = frozenset(
    {
        "acks", "auto.offset.reset", "client.rack", "delivery.timeout.ms", "enable.auto.commit",
        "enable.auto.offset.store", "enable.gapless.guarantee", "enable.idempotence", "enable.partition.eof",
        "fetch.error.backoff.ms", "fetch.queue.backoff.ms", "group.id", "isolation.level", "linger.ms", "log_level",
        "max.in.flight", "max.in.flight.requests.per.connection", "message.timeout.ms", "partitioner",
        "queue.buffering.max.messages", "queue.buffering.max.ms", "request.required.acks", "transactional.id",
    }
)  # fmt: skip
"""Properties on which the member log's safety rests, or its speed: it sets them itself."""

_CONNECTION = frozenset(
    {
        "bootstrap.servers", "broker.address.family", "broker.address.ttl", "client.dns.lookup", "client.id",
        "connections.max.idle.ms", "debug", "enable.metrics.push", "metadata.broker.list", "metadata.max.age.ms",
        "metadata.recovery.rebootstrap.trigger.ms", "metadata.recovery.strategy", "reconnect.backoff.jitter.ms",
        "reconnect.backoff.max.ms", "reconnect.backoff.ms", "request.timeout.ms", "retry.backoff.max.ms",
        "retry.backoff.ms", "socket.connection.setup.timeout.ms", "socket.keepalive.enable", "socket.max.fails",
        "socket.nagle.disable", "socket.receive.buffer.bytes", "socket.send.buffer.bytes", "socket.timeout.ms",
        "topic.metadata.propagation.max.ms", "topic.metadata.refresh.fast.interval.ms",
        "topic.metadata.refresh.interval.ms", "topic.metadata.refresh.sparse",
    }
)  # fmt: skip
_COMPRESSION = frozenset({"compression.codec", "compression.level", "compression.type"})
_SECURITY = frozenset(
    {
        "enable.sasl.oauthbearer.unsecure.jwt", "enable.ssl.certificate.verification", "https.ca.location",
        "https.ca.pem", "sasl.kerberos.keytab", "sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.principal", "sasl.kerberos.service.name", "sasl.mechanism", "sasl.mechanisms",
        "sasl.oauthbearer.assertion.algorithm", "sasl.oauthbearer.assertion.claim.aud",
        "sasl.oauthbearer.assertion.claim.exp.seconds", "sasl.oauthbearer.assertion.claim.iss",
        "sasl.oauthbearer.assertion.claim.jti.include", "sasl.oauthbearer.assertion.claim.nbf.seconds",
        "sasl.oauthbearer.assertion.claim.sub", "sasl.oauthbearer.assertion.file",
        "sasl.oauthbearer.assertion.jwt.template.file", "sasl.oauthbearer.assertion.private.key.file",
        "sasl.oauthbearer.assertion.private.key.passphrase", "sasl.oauthbearer.assertion.private.key.pem",
        "sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret", "sasl.oauthbearer.config",
        "sasl.oauthbearer.extensions", "sasl.oauthbearer.grant.type", "sasl.oauthbearer.metadata.authentication.type",
        "sasl.oauthbearer.method", "sasl.oauthbearer.scope", "sasl.oauthbearer.sub.claim.name",
        "sasl.oauthbearer.token.endpoint.url", "sasl.password", "sasl.username", "security.protocol",
        "ssl.ca.certificate.stores", "ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location",
        "ssl.certificate.pem", "ssl.cipher.suites", "ssl.crl.location", "ssl.curves.list",
        "ssl.endpoint.identification.algorithm", "ssl.key.location", "ssl.key.password", "ssl.key.pem",
        "ssl.keystore.location", "ssl.keystore.password", "ssl.providers", "ssl.sigalgs.list",
    }
)  # fmt: skip

KEPT = _CONNECTION | _COMPRESSION | _SECURITY
"""Properties that are handed to librdkafka as they are."""


def why_refused(name: str) -> str | None:
    """Why a property may not be set, for people; None if it may."""
    if name in KEPT:
        return None
    if name in RESERVED:
        return "is set by the member log itself"
    return "is none of the properties of a connection, its security or its compression that may be set"
