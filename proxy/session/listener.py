"""What the connections of one listener share."""

from collections.abc import Callable

import msgspec

from proxy.config.schema import Limits
from proxy.session.held_calls_budget import HeldCallsBudget
from proxy.session.request_metrics import RequestMetrics
from proxy.wire.api_versions import ApiVersionsNegotiator
from proxy.wire.broker_addresses import KnownNodes, LearnCluster, MapAddress
from translation.actions import ConnectionId
from translation.passthrough.topic_names import TopicNames
from translation.policy.policy import Mode, Rule


class Listener(msgspec.Struct, frozen=True):
    """See the module. ``clock`` returns seconds; latencies are measured with it.

    ``topics`` maps the topic ids that were seen to names, ``rule_for`` returns the policy's rule for a group id, and
    ``passes_through`` returns for a connection, group and member whether the translation is sure to forward a
    Heartbeat. ``held_calls`` bounds the memory for large group calls in all listeners together. ``known_nodes`` returns
    those that a response has named before, with the racks that ``learn_cluster`` was given.
    """

    map_address: MapAddress
    negotiator: ApiVersionsNegotiator
    limits: Limits
    request_metrics: RequestMetrics
    clock: Callable[[], float]
    topics: TopicNames = msgspec.field(default_factory=TopicNames)
    rule_for: Callable[[str], Rule] = lambda group_id: Rule(mode=Mode.OBSERVE, group=group_id)
    passes_through: Callable[[ConnectionId, str, str], bool] = lambda _connection_id, _group_id, _member_id: (
        False
    )
    held_calls: HeldCallsBudget = msgspec.field(
        default_factory=lambda: HeldCallsBudget(Limits().group_calls_held_max_bytes)
    )
    known_nodes: KnownNodes = tuple
    learn_cluster: LearnCluster = lambda _nodes, _cluster_id: None
