"""The demo on the embedded coordinator, in this process: it starts at once and needs nothing installed."""

from coordinator.broker import EmbeddedCluster, serve
from proxy.demo.display_model import View
from proxy.demo.plan import Plan
from proxy.demo.runner import perform
from proxy.demo.verdict import Result


async def perform_embedded(plan: Plan, view: View) -> Result:
    """One demo on a cluster that lives as long as the demo, with Kafka's default settings.

    :raises DemoFailed: in exception groups: it could not be carried out.
    """
    async with serve(EmbeddedCluster(auto_create_partitions=0)) as cluster:
        return await perform(cluster.bootstrap, "the embedded coordinator", plan, view)
