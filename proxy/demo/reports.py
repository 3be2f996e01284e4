"""What a consumer process is told when it starts, and what it reports: one JSON line each.

Times are :func:`time.monotonic_ns`, which all processes of one machine share.
"""

import msgspec


class ConsumerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The only argument of ``python -m proxy.demo.consumer``.

    ``name`` becomes the client id. ``work_s`` is how long the application works on a batch of records on
    average.
    """

    name: str
    bootstrap: str
    group_id: str
    topic: str
    assignor: str
    session_timeout_ms: int
    heartbeat_interval_ms: int
    work_s: float


class Assigned(msgspec.Struct, frozen=True, tag="assigned"):
    """The assign callback was entered: these partitions are the consumer's, beside those it may have kept."""

    at_ns: int
    partitions: tuple[int, ...]


class Revoked(msgspec.Struct, frozen=True, tag="revoked"):
    """The revoke or the lost callback ran: from ``began_ns`` on nothing was read, at ``ended_ns`` it returned."""

    began_ns: int
    ended_ns: int
    partitions: tuple[int, ...]


class Consumed(msgspec.Struct, frozen=True, tag="consumed"):
    """Records were read; their offsets are committed only after this line was written."""

    numbers: tuple[int, ...]


class Left(msgspec.Struct, frozen=True, tag="left"):
    """The consumer closed in an orderly way, as it was told to."""

    at_ns: int


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The client library gave up."""

    reason: str


Report = Assigned | Revoked | Consumed | Left | Failed
