"""Runs the demo on the embedded coordinator in this process, which needs no Kafka."""

from coordinator.broker import EmbeddedCluster, serve
from proxy.demo.display_model import View
from proxy.demo.plan import Plan
from proxy.demo.story import R, Run


async def run_embedded(run: Run[R], plan: Plan, view: View) -> R:
    """Run a story on an embedded cluster with Kafka's default settings, and return its result.

    :raises ExceptionGroup: with a :class:`~proxy.demo.failure.DemoFailed`, if a step could not be carried out.
    """
    async with serve(EmbeddedCluster(auto_create_partitions=0)) as cluster:
        return await run(cluster.bootstrap, "the embedded coordinator", plan, view)
