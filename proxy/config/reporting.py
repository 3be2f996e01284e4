"""The sections of the configuration about what the proxy reports: ``log``, ``visibility``, ``metrics``,
``journal``, ``verify``, ``preflight``.
"""

from typing import Annotated, Literal

from msgspec import Meta

from proxy.config.section import Section


class Log(Section, frozen=True, kw_only=True):
    """Log lines go to standard error."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="Lines below this level are left out.")
    ] = "info"
    format: Annotated[
        Literal["auto", "console", "json"],
        Meta(
            description="`console` for people, `json` for machines. `auto`: `console` on a terminal, "
            "else `json`."
        ),
    ] = "auto"
    lines_per_s: Annotated[
        int,
        Meta(
            ge=1,
            description="Lines of one kind (`joined`, `connection closed`, ...) a second that are written, after ten "
            "times as many at once; what is beyond is left out, counted, and said in the next line of that kind.",
        ),
    ] = 100


class Visibility(Section, frozen=True, kw_only=True):
    """What is kept, logged and shown of groups and members, so that nobody can make it grow.

    What is beyond a bound is left out, and counted in `epochgate_bounds_hit_total`. Calls are not affected.
    """

    id_max_chars: Annotated[
        int,
        Meta(
            ge=64,
            le=32767,
            description="Characters of an id, a client's software or a reason that are kept; of a longer one its "
            "beginning, with `…` and a hash. A group with a longer id is in the log and the journal only.",
        ),
    ] = 255
    groups: Annotated[
        int,
        Meta(ge=1, description="Groups that are kept. Groups with members stay, newer ones are left out."),
    ] = 20_000
    groups_without_members: Annotated[
        int,
        Meta(
            ge=0,
            description="Groups without members that are kept, for an hour at most; those that never had a member are "
            "forgotten first.",
        ),
    ] = 1_000
    members: Annotated[int, Meta(ge=1, description="Members of all groups that are kept.")] = 50_000
    members_of_group: Annotated[int, Meta(ge=1, description="Members of one group that are kept.")] = 10_000
    partitions: Annotated[
        int,
        Meta(
            ge=0,
            description="Partitions of all members that are kept; what further members hold is shown as not known.",
        ),
    ] = 1_000_000
    partitions_of_event: Annotated[
        int, Meta(ge=1, description="Partitions that one event may name; of more of them none is named.")
    ] = 10_000
    events_max_bytes: Annotated[
        int,
        Meta(
            ge=0,
            description="Memory for the latest events of groups (120 of each), in bytes, roughly; the oldest are "
            "forgotten first.",
        ),
    ] = 64 * 1024 * 1024
    page_groups: Annotated[
        int,
        Meta(
            ge=1,
            description="Groups in one answer of `/api/groups`; the next page is asked for with `after`.",
        ),
    ] = 1_000
    page_max_bytes: Annotated[
        int,
        Meta(
            ge=1024,
            description="Size in bytes at which an answer of `/api/groups` ends, however few groups it has (one at "
            "least).",
        ),
    ] = 16 * 1024 * 1024


class MetricsSection(Section, frozen=True, kw_only=True):
    """What `/metrics` and the status page tell of groups."""

    groups: Annotated[
        int,
        Meta(
            ge=0,
            description="Groups that have metrics of their own: those that the policy names or matches, in its order, "
            "then others by a hash of their ids; so each process chooses the same. The rest share the label `other`.",
        ),
    ] = 1_000
    ask_brokers_every_s: Annotated[
        float,
        Meta(
            ge=0,
            description="Seconds between two questions to a broker about one group: how many of its members are "
            "classic and how many of the new protocol. Asked on a connection of one of the group's own members, "
            "with at most 20 groups a second. 0: never.",
        ),
    ] = 30.0


class JournalSection(Section, frozen=True, kw_only=True):
    """Where what happens to groups is written down (docs/reference/journal.md)."""

    path: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        Meta(description="Directory for the journal's files, relative to this file. `null`: no files."),
    ] = None
    topic: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        Meta(
            description="Topic that gets the journal. With `fleet` its account (`fleet.kafka`) writes it, and makes it "
            "if it is missing and the account may. Without, it is a topic of the cluster behind the proxy that must "
            "exist and can be written without SASL. `null`: none."
        ),
    ] = None
    file_max_bytes: Annotated[
        int, Meta(ge=4096, description="Size in bytes at which a file is finished and the next one begun.")
    ] = 64 * 1024 * 1024
    file_max_age_s: Annotated[
        float, Meta(gt=0, description="Age in seconds at which a file is finished, however small it is.")
    ] = 60.0
    keep_bytes: Annotated[
        int,
        Meta(
            ge=0,
            description="Bytes of finished files of one replica that stay in the directory; the oldest are deleted "
            "beyond that, and counted. 0: all stay. A topic that the proxy makes is limited to the same size.",
        ),
    ] = 4 * 1024 * 1024 * 1024
    shared: Annotated[
        bool,
        Meta(
            description="`true` if replicas that come and go write to one directory, as pods do to one volume: what a "
            "replica that is gone left there is finished by another, `keep_bytes` is for all files of all replicas "
            "together, and on a full disk the oldest finished file makes room. All of them have to say the same."
        ),
    ] = False
    queue_events: Annotated[
        int,
        Meta(
            ge=1,
            description="Events that may wait to be written, for each of files and topic; what comes beyond is lost, "
            "and counted.",
        ),
    ] = 20_000
    queue_max_bytes: Annotated[
        int,
        Meta(ge=4096, description="The same in bytes of memory, roughly."),
    ] = 64 * 1024 * 1024

    def __post_init__(self) -> None:
        """Refuse a shared directory that has no room for two files: each one being written counts in full."""
        if self.shared and 0 < self.keep_bytes < 2 * self.file_max_bytes:
            raise ValueError(
                f"`journal.keep_bytes`: {self.keep_bytes} is less than two files of `file_max_bytes` "
                f"({self.file_max_bytes}), of which each replica that shares the directory writes one"
            )


class Verify(Section, frozen=True, kw_only=True):
    """The live verification of the journal (docs/how-to/live-proof.md)."""

    live: Annotated[
        bool,
        Meta(
            description="Whether the proxy goes by the rules of `epochgate verify` all the time. With `journal.topic` "
            "and `fleet` one replica verifies what all write; its account needs Read on the topic. Otherwise each "
            "process verifies its own events."
        ),
    ] = False
    cpu_share: Annotated[
        float,
        Meta(
            gt=0,
            le=1,
            description="Share of a processor core that it takes at most, a few milliseconds at a time; a topic with "
            "a long history is read more slowly.",
        ),
    ] = 0.2
    groups: Annotated[
        int,
        Meta(ge=1, description="Groups that are verified; others have no certificate, and are not proven."),
    ] = 10_000
    things_of_group: Annotated[
        int,
        Meta(
            ge=1,
            description="Members, partitions and overlaps of one group that are kept; a group with more is not "
            "verified.",
        ),
    ] = 100_000
    waiting_events: Annotated[
        int,
        Meta(
            ge=1000,
            description="Events of all replicas that wait for earlier ones to come; beyond that the oldest wait no "
            "longer, and an earlier one that comes then leaves the time unproven.",
        ),
    ] = 100_000


class PreflightSection(Section, frozen=True, kw_only=True):
    """The preflight that the running proxy makes of its own accord (docs/how-to/preflight.md)."""

    enabled: Annotated[
        bool,
        Meta(
            description="Check brokers and groups as `epochgate preflight` does: some seconds after the start, after "
            "each new policy, and every `every_s`. Log, metrics, `/preflight` and `/api/preflight` say what was found. "
            "It asks with the account of `fleet`, else as anybody may; it writes nothing, and delays nothing."
        ),
    ] = True
    every_s: Annotated[
        float,
        Meta(ge=1, description="Seconds from one preflight to the next, a tenth more or less at random."),
    ] = 3600.0
    timeout_s: Annotated[
        float, Meta(ge=1, le=3600, description="Seconds after which a preflight is given up.")
    ] = 180.0
    max_memory_bytes: Annotated[
        int,
        Meta(
            ge=128 * 1024 * 1024,
            description="Memory that a preflight may take, in bytes. It is a process of its own, which ends with it.",
        ),
    ] = 256 * 1024 * 1024
    replicas: Annotated[
        str | None,
        Meta(
            description="Where all replicas that serve the same clients are asked: `host:port` of their admin ports, "
            "with a name that has the addresses of each (a headless Service). `null`: a replica asks itself, and what "
            "others see is unknown to it."
        ),
    ] = None
    accept: Annotated[
        tuple[str, ...],
        Meta(
            description="Checks whose findings are listed and not counted; `epochgate preflight --config` does so too."
        ),
    ] = ()
    kafka_version: Annotated[
        str | None,
        Meta(
            description="The brokers' release, such as `4.1.0`: adds what is known of it. `null`: not known."
        ),
    ] = None
