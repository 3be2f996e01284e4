"""The ``limits`` section of the configuration: how large a request may be, before authentication and after, how
long it may take, and how many connections there may be.
"""

from typing import Annotated

from msgspec import Meta

from proxy.config.section import Section


class Limits(Section, frozen=True, kw_only=True):
    """What a peer may ask for. Kafka's names and defaults are given where it has them."""

    frame_max_bytes: Annotated[
        int,
        Meta(
            ge=1024,
            le=2**31 - 1,
            description="Largest request, in bytes (Kafka: `socket.request.max.bytes`). Requests are "
            "passed on in pieces as they arrive, so this is no bound of memory.",
        ),
    ] = 100 * 1024 * 1024
    first_frame_max_bytes: Annotated[
        int,
        Meta(
            ge=1024,
            description="Largest request of a connection that has not sent a valid one yet, in bytes.",
        ),
    ] = 2 * 1024 * 1024
    sasl_max_bytes: Annotated[
        int,
        Meta(
            ge=1024,
            description="Largest request or token of an authentication, in bytes (Kafka: "
            "`sasl.server.max.receive.size`).",
        ),
    ] = 512 * 1024
    decoded_max_bytes: Annotated[
        int,
        Meta(
            ge=1024,
            description="Largest response that is decoded here (Metadata, answers to the proxy's own requests), in "
            "bytes; these are held in memory whole.",
        ),
    ] = 32 * 1024 * 1024
    group_call_max_bytes: Annotated[
        int,
        Meta(
            ge=1024,
            description="Largest group call (JoinGroup, SyncGroup, OffsetCommit and so on) that is decoded here, in "
            "bytes. A larger one passes on undecoded, and ends its connection if its group is translated.",
        ),
    ] = 1024 * 1024
    group_call_max_elements: Annotated[
        int,
        Meta(
            ge=1000,
            description="Elements that the lists of a group call may have in all (topics, partitions, owned "
            "partitions in its subscriptions); with more of them it is too large as well. Decoding and handling "
            "them holds up all other connections meanwhile.",
        ),
    ] = 20_000
    first_group_call_max_bytes: Annotated[
        int,
        Meta(
            ge=1024,
            description="Largest group call that is decoded before the broker has answered a request on the "
            "connection, in bytes. A larger one waits until the proxy has asked the broker for Metadata there, which "
            "only clients get that have authenticated.",
        ),
    ] = 16 * 1024
    group_calls_held_max_bytes: Annotated[
        int,
        Meta(
            ge=1024 * 1024,
            description="Bytes of large group calls (above 128 KiB) that one process holds at once, from their first "
            "byte to their answer; beyond that connections wait their turn.",
        ),
    ] = 64 * 1024 * 1024
    in_flight_requests: Annotated[
        int,
        Meta(
            ge=1,
            description="Requests of one connection that may wait for their responses; while there are as "
            "many, nothing more is read from that client.",
        ),
    ] = 256
    first_request_timeout_s: Annotated[
        float,
        Meta(
            gt=0,
            description="Seconds in which a new connection must have sent its first request, TLS handshake included.",
        ),
    ] = 30.0
    request_timeout_s: Annotated[
        float,
        Meta(
            gt=0,
            description="Seconds in which the rest of a request must follow its beginning; for a larger one, so many "
            "for each MiB.",
        ),
    ] = 60.0
    idle_timeout_s: Annotated[
        float,
        Meta(
            gt=0,
            description="Seconds after which a connection is closed on which nothing is under way and nothing was sent "
            "(Kafka: `connections.max.idle.ms`), or whose client reads nothing of what waits for it.",
        ),
    ] = 600.0
    max_connections: Annotated[
        int,
        Meta(
            ge=1,
            description="Connections of clients that may be open (Kafka: `max.connections`); each worker takes its "
            "share. Never more than half of the descriptors that the process may have (`ulimit -n`).",
        ),
    ] = 2**31 - 1
    max_connections_per_address: Annotated[
        int,
        Meta(
            ge=1,
            description="Connections that one client address may have open (Kafka: `max.connections.per.ip`).",
        ),
    ] = 2**31 - 1
    session_timeout_min_ms: Annotated[
        int,
        Meta(
            ge=1,
            description="Shortest session timeout, in milliseconds, that a client of a translated group may ask for "
            "(Kafka: `group.min.session.timeout.ms`). Change it here if the brokers have another.",
        ),
    ] = 6_000
    session_timeout_max_ms: Annotated[
        int,
        Meta(
            ge=1,
            description="Longest session timeout, likewise (Kafka: `group.max.session.timeout.ms`).",
        ),
    ] = 1_800_000
    connection_max_age_s: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(
            description="Seconds after which a connection is closed at its next moment of rest, so that its client "
            "connects anew and a replica that was added gets its share; drawn from the last fifth before, for each. "
            "Never while a member that is reached through it is in a rebalance, or while records are locked in its "
            "share session. `null`: never.",
        ),
    ] = None
