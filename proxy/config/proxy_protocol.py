"""The section `proxy_protocol` of a listener: which load balancers say for whom they open a connection."""

import ipaddress
from functools import cached_property
from typing import Annotated

from msgspec import Meta

from proxy.config.section import Section

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class ProxyProtocol(Section, frozen=True, kw_only=True, dict=True):
    """PROXY protocol, versions 1 and 2, at all ports of the listener (docs/how-to/load-balancers.md)."""

    trusted: Annotated[
        tuple[str, ...],
        Meta(
            min_length=1,
            description="Addresses and networks (CIDR) of the load balancers. A connection from one of them must begin "
            "with a PROXY header, and counts as the client's that it names. At a connection from elsewhere a header is "
            "an error, and its own address counts.",
        ),
    ]
    timeout_s: Annotated[
        float, Meta(gt=0, description="Seconds that a load balancer has for the header of a connection.")
    ] = 5.0

    def __post_init__(self) -> None:
        """Check the networks."""
        self.networks  # noqa: B018  computed at the first use

    @cached_property
    def networks(self) -> tuple[Network, ...]:
        """The trusted networks."""
        return tuple(_network(text) for text in self.trusted)


def _network(text: str) -> Network:
    try:
        network = ipaddress.ip_network(text)
    except ValueError as error:
        raise ValueError(f"`trusted`: expected an address or a network (CIDR): {error}") from None
    if isinstance(network, ipaddress.IPv6Network) and network.network_address.ipv4_mapped is not None:
        raise ValueError(f"`trusted`: write an IPv4 network as one, got {text!r}")
    return network
