"""Runs the demo on the embedded coordinator in this process, which needs no Kafka."""

from coordinator.broker import EmbeddedCluster, serve
from proxy.demo.display_model import View
from proxy.demo.plan import Plan
from proxy.demo.runner import run_on_cluster
from proxy.demo.verdict import Result


async def run_embedded(plan: Plan, view: View) -> Result:
    """Run the demo on an embedded cluster with Kafka's default settings, and return its result.

    :raises ExceptionGroup: with a :class:`~proxy.demo.failure.DemoFailed`, if a step could not be carried out.
    """
    async with serve(EmbeddedCluster(auto_create_partitions=0)) as cluster:
        return await run_on_cluster(cluster.bootstrap, "the embedded coordinator", plan, view)
