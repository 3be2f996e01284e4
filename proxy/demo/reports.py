"""The settings of a consumer process, and its reports: one JSON line each.

Times are :func:`time.monotonic_ns`, which is the same for all processes of a machine.
"""

import msgspec


class ConsumerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The only argument of ``python -m proxy.demo.consumer``.

    ``name`` becomes the client id. ``work_s`` is the average time in seconds that the application spends on a batch.
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
    """The assign callback was called with these partitions, which are added to those the consumer kept."""

    at_ns: int
    partitions: tuple[int, ...]


class Revoked(msgspec.Struct, frozen=True, tag="revoked"):
    """The revoke or lost callback ran from ``began_ns`` to ``ended_ns``; the consumer read nothing meanwhile."""

    began_ns: int
    ended_ns: int
    partitions: tuple[int, ...]


class Consumed(msgspec.Struct, frozen=True, tag="consumed"):
    """Records were processed. Their offsets are committed only after this report."""

    numbers: tuple[int, ...]


class Left(msgspec.Struct, frozen=True, tag="left"):
    """The consumer left its group and closed, on request."""

    at_ns: int


class ShareConsumerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The only argument of ``python -m proxy.demo.share.consumer``.

    ``most_records`` is ``max.poll.records``; ``work_s`` the time in seconds that the application spends on as many.
    """

    name: str
    bootstrap: str
    group_id: str
    topic: str
    most_records: int
    work_s: float


class Delivered(msgspec.Struct, frozen=True, tag="delivered"):
    """A share consumer was delivered these records: (number, delivery count). With ``holds`` it never finishes them."""

    at_ns: int
    records: tuple[tuple[int, int], ...]
    holds: bool = False


class Acknowledged(msgspec.Struct, frozen=True, tag="acknowledged"):
    """The broker has taken note that a share consumer accepted and released these records."""

    at_ns: int
    accepted: tuple[int, ...]
    released: tuple[int, ...]


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The client library gave up with this error."""

    reason: str


Report = Assigned | Revoked | Consumed | Delivered | Acknowledged | Left | Failed
