"""The section ``fleet`` of the configuration about the member log, and the librdkafka properties that follow from
it (``kafka_files``, ``kafka_environment``, ``mac_key_file``).
"""

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta
from msgspec.structs import replace

from proxy.config.kafka_properties import why_refused
from proxy.config.regular_file import read_regular_file, unreadable
from proxy.config.section import Section
from translation.member_log.formats import DEFAULT_FORMAT, FORMATS, known_formats
from translation.member_log.group_mac import SHORTEST_KEY
from translation.member_log.settings import FleetSettings

Property = str | int | float | bool

CREDENTIALS = frozenset({"sasl.username", "sasl.password"})
"""The properties that are exchanged in a running process; librdkafka takes others only when a client is made."""

_MAX_SECRET_BYTES = 64 * 1024


class ReplicaNames(Section, frozen=True, kw_only=True):
    """Names that resolve to the addresses of replicas, for ``expires: auto``. In the chart: headless Services."""

    every: Annotated[
        str,
        Meta(
            min_length=1,
            description="Host name that resolves to the addresses of all processes that serve these clients, "
            "those that are starting or ending too.",
        ),
    ]
    writing: Annotated[
        str,
        Meta(
            min_length=1,
            description="Host name that resolves to the addresses of those among them that write this log.",
        ),
    ]
    own_address: Annotated[
        str | None,
        Meta(
            description="This process's own IP address among them; in a pod by the variable "
            "`EPOCHGATE_FLEET__REPLICA_NAMES__OWN_ADDRESS` from `status.podIP`."
        ),
    ] = None

    def __post_init__(self) -> None:
        """Refuse an address that is none."""
        if self.own_address is not None:
            try:
                ipaddress.ip_address(self.own_address)
            except ValueError:
                raise ValueError(
                    f"`fleet.replica_names.own_address`: {self.own_address!r} is no IP address"
                ) from None


class Fleet(Section, frozen=True, kw_only=True):
    """The member log, by which replicas agree who serves a member."""

    kafka: Annotated[
        dict[str, Property],
        Meta(
            description="librdkafka properties of the account that reads and writes the log: `bootstrap.servers`, "
            "`security.protocol`, `sasl.mechanisms`, `ssl.ca.location`, `compression.type` and so on. What is none "
            "of a connection, its security or its compression is refused."
        ),
    ]
    kafka_files: Annotated[
        dict[str, str] | None,
        Meta(
            description="The same, each with a file that has the value: `{sasl.password: /run/secrets/password}`. "
            "Relative to this file; line ends at its end do not count. `sasl.username` and `sasl.password` "
            "are read again when their files change; a change of others needs a restart."
        ),
    ] = None
    kafka_environment: Annotated[
        dict[str, str] | None,
        Meta(description="The same, each with an environment variable that has the value."),
    ] = None
    topic: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=249,
            pattern=r"^[a-zA-Z0-9._-]+$",
            description="Topic of the log; the same for all replicas. It is made at the start if it is missing and the "
            "account may.",
        ),
    ] = "__epochgate_members"
    partitions: Annotated[
        int,
        Meta(
            ge=1,
            le=1000,
            description="Partitions of the topic. It can't be changed later: another number is refused at the start.",
        ),
    ] = 16
    replication: Annotated[
        int,
        Meta(
            ge=1,
            le=32767,
            description="Replicas of each partition, if the topic has to be made. With three or more of them two must "
            "be in sync for a write; with fewer, one.",
        ),
    ] = 3
    record_format: Annotated[
        int,
        Meta(
            description="The number of the format in which records are written. Only for an upgrade that skips "
            "releases, and for the way back from it (docs/how-to/fleet.md)."
        ),
    ] = DEFAULT_FORMAT
    expires: Annotated[
        bool | Literal["auto"],
        Meta(
            description="Whether a member whose timeout has passed is taken out of its group. `true` only when every "
            "process that serves these clients writes this log: first roll out `false` everywhere, then `true`; on the "
            "way back in reverse. `auto`: while `replica_names` say that every one does."
        ),
    ] = False
    replica_names: Annotated[
        ReplicaNames | None,
        Meta(description="Where `expires: auto` learns whether every process writes this log."),
    ] = None
    resumes: Annotated[
        bool,
        Meta(
            description="Whether a client that comes to another process, or on another connection, goes on without a "
            "rejoin if the log and the broker agree about what it has. `false`: it is told to rejoin, as without a log."
        ),
    ] = True

    mac_key_file: Annotated[
        str | None,
        Meta(
            description="File with a key that all replicas share, at least 32 bytes: records of moves by steps, so "
            "approvals too, count only if they are authenticated by it. Without one, whoever may write the topic can "
            "approve. Relative to this file; read at the start."
        ),
    ] = None
    max_members: Annotated[
        int,
        Meta(
            ge=1_000,
            le=10_000_000,
            description="Members whose records this process keeps in memory, and records of groups; beyond that it "
            "forgets the oldest. A fleet has one for each translated member, and one for each that has ended in the "
            "last hour. Several times what you need, and the same for all replicas.",
        ),
    ] = FleetSettings().most_members
    max_group_members: Annotated[
        int, Meta(ge=1_000, le=10_000_000, description="The same for one group.")
    ] = FleetSettings().members_of_group
    max_bytes: Annotated[
        int,
        Meta(
            ge=1024 * 1024,
            description="About how much memory the records of members may take, and half of that those of groups.",
        ),
    ] = FleetSettings().max_bytes

    def __post_init__(self) -> None:
        """Refuse properties that may not be set or are given twice, a log without brokers, and an unknown format."""
        given = [*self.kafka, *(self.kafka_files or ()), *(self.kafka_environment or ())]
        for name in given:
            if (why := why_refused(name)) is not None:
                raise ValueError(f"`fleet.kafka`: {name!r} {why}")
            if given.count(name) > 1:
                raise ValueError(f"`fleet.kafka`: {name!r} is given twice")
        if not {"bootstrap.servers", "metadata.broker.list"} & set(given):
            raise ValueError("`fleet.kafka`: `bootstrap.servers` is missing")
        if (self.expires == "auto") != (self.replica_names is not None):
            raise ValueError("`fleet.expires: auto` and `fleet.replica_names` need each other")
        if self.record_format not in FORMATS:
            raise ValueError(
                f"`fleet.record_format`: this release knows {known_formats()}, not {self.record_format}"
            )


class UnreadableSecret(Exception):
    """A property's file or environment variable has no value."""


def with_absolute_secrets(fleet: Fleet, folder: Path) -> Fleet:
    """Resolve the paths of the files, which are relative to the configuration's folder."""
    files = fleet.kafka_files or {}
    return replace(
        fleet,
        kafka_files={name: str(folder / file) for name, file in files.items()},
        mac_key_file=None if fleet.mac_key_file is None else str(folder / fleet.mac_key_file),
    )


def mac_key(fleet: Fleet) -> bytes | None:
    """Return the key that authenticates records of groups; None if there is none. Line ends at its end do not count.

    :raises UnreadableSecret: the file can't be read, or the key is too short. The message does not name it.
    """
    if fleet.mac_key_file is None:
        return None
    try:
        key = read_regular_file(Path(fleet.mac_key_file), _MAX_SECRET_BYTES).rstrip(b"\r\n")
    except OSError as error:
        raise UnreadableSecret(f"`fleet.mac_key_file`: {fleet.mac_key_file}: {unreadable(error)}") from None
    if len(key) < SHORTEST_KEY:
        raise UnreadableSecret(
            f"`fleet.mac_key_file`: the key has {len(key)} bytes, fewer than {SHORTEST_KEY}"
        )
    return key


def kafka_properties(fleet: Fleet, environment: Mapping[str, str]) -> dict[str, Property]:
    """Return the librdkafka properties with their secrets.

    :raises UnreadableSecret: files can't be read, or variables are not set. The message has a line for each, and no
        value.
    """
    properties = dict(fleet.kafka)
    missing: list[str] = []
    for name, file in (fleet.kafka_files or {}).items():
        try:
            properties[name] = text = read_regular_file(Path(file), _MAX_SECRET_BYTES).decode().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            missing.append(f"`fleet.kafka_files.{name}`: {file}: {unreadable(error)}")
        else:
            if not text:
                missing.append(f"`fleet.kafka_files.{name}`: {file}: is empty")
    for name, variable in (fleet.kafka_environment or {}).items():
        if variable in environment:
            properties[name] = environment[variable]
        else:
            missing.append(f"`fleet.kafka_environment.{name}`: the variable {variable} is not set")
    if missing:
        raise UnreadableSecret("\n".join(missing))
    return properties
