"""The section of the configuration about `epochgate exporter`."""

from typing import Annotated, Any, Literal

import re2
from msgspec import Meta

from proxy.config.host_names import check_host, check_names
from proxy.config.network import Port
from proxy.config.section import Section

Names = Literal["kafka_exporter", "burrow"]


class Exporter(Section, frozen=True, kw_only=True):
    """The lag of all groups as metrics, under the names of common exporters; served by `epochgate exporter`.

    It asks the brokers with the account of `fleet.kafka`.
    """

    bind: Annotated[str, Meta(description="Address to listen on; loopback unless told otherwise.")] = (
        "127.0.0.1"
    )
    port: Annotated[Port, Meta(description="Port. 0: any free port.")] = 9308
    hosts: Annotated[
        tuple[str, ...],
        Meta(
            description="Names by which clients may call this port in the header `Host`, as `epochgate.example`, or "
            "`*.example` for all names below one; others are answered 421. IP addresses, names without a dot and the "
            "machine's own name always may."
        ),
    ] = ()
    names: Annotated[
        tuple[Names, ...],
        Meta(
            min_length=1,
            description="Whose metrics: `kafka_exporter` for `kafka_consumergroup_*`, `burrow` for "
            "`burrow_kafka_consumer_*`.",
        ),
    ] = ("kafka_exporter",)
    cluster: Annotated[
        str,
        Meta(
            min_length=1,
            description="The label `cluster` of Burrow's metrics: the name of the cluster there.",
        ),
    ] = "kafka"
    groups: Annotated[
        str, Meta(description="Regular expression (RE2) that the whole group id has to match.")
    ] = ".*"
    every_s: Annotated[
        float, Meta(ge=5, description="Seconds between two readings; scrapes get the last one.")
    ] = 30.0
    forget_after_s: Annotated[
        float,
        Meta(
            ge=5,
            description="Seconds after which a group that could not be read again has no metrics any more.",
        ),
    ] = 120.0
    max_groups: Annotated[
        int,
        Meta(
            ge=1,
            le=1000,
            description="Groups that are read, in the order of their names; the others are counted.",
        ),
    ] = 1_000
    max_series: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000,
            description="Series of groups; a group that does not fit is left out whole, and counted.",
        ),
    ] = 100_000

    def __post_init__(self) -> None:
        """Refuse what is no address, and a second reading that comes after the first is forgotten."""
        check_host("bind", self.bind)
        check_names(self.hosts)
        try:
            self.pattern()
        except re2.error as error:
            raise ValueError(f"`exporter.groups` is no regular expression: {error}") from None
        if self.forget_after_s <= self.every_s:
            raise ValueError("`exporter.forget_after_s` has to be more than `exporter.every_s`")

    def pattern(self) -> Any:
        """``groups``, compiled."""
        options = re2.Options()
        options.log_errors = False
        options.dot_nl = True  # a group id may have line breaks
        return re2.compile(self.groups, options)
