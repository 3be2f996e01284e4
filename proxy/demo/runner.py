"""Runs a demo: creates topic, proxy, producer and consumers, runs the scenario, and removes them again."""

from tempfile import TemporaryDirectory
from uuid import uuid4

import msgspec
import trio

from proxy.demo.commands import verify
from proxy.demo.consumers import ConsumerPool
from proxy.demo.display_model import DisplayModel, View
from proxy.demo.group import DemoGroup
from proxy.demo.group_table import group_table
from proxy.demo.kafka import Kafka
from proxy.demo.plan import STEPS, Plan
from proxy.demo.producer import NumberedProducer
from proxy.demo.proxy import DemoProxy
from proxy.demo.scenario import Scenario
from proxy.demo.verdict import Result

CLASSIC, EPOCHGATE = "Classic", "Epochgate"
_REFRESH_S = 0.25
_CLEAN_UP_S = 10.0


async def run_on_cluster(bootstrap: str, source: str, plan: Plan, view: View) -> Result:
    """Run the demo on the cluster at ``bootstrap`` and return its result, with the certificate of the proxy's journal.

    :raises ExceptionGroup: with a :class:`~proxy.demo.failure.DemoFailed`, if a step could not be carried out.
    """
    with TemporaryDirectory(prefix="epochgate-demo-") as journal:
        result, group_id = await _run(bootstrap, source, plan, view, journal)
        return msgspec.structs.replace(result, certificate=await verify(journal, group_id))


async def _run(bootstrap: str, source: str, plan: Plan, view: View, journal: str) -> tuple[Result, str]:
    """Run the demo; return its result and the id of the group that was moved. The journal is finished then."""
    kafka = Kafka(bootstrap)
    node_ids = await kafka.node_ids()
    topic = f"epochgate-demo-{uuid4().hex[:8]}"
    display = DisplayModel(source, len(STEPS), view)
    classic, moved = (
        DemoGroup(title, f"{topic}-{title.lower()}", plan.partitions, display.log)
        for title in (CLASSIC, EPOCHGATE)
    )
    demo_proxy = DemoProxy(bootstrap, node_ids, journal)
    display.groups = (classic, moved)
    display.tables = lambda: (group_table(classic, None), group_table(moved, demo_proxy))
    session_s = await kafka.consumer_session_s(node_ids[0])
    await kafka.create_topic(topic, plan.partitions)
    try:
        with view.showing(display):
            async with trio.open_nursery() as outer:
                await outer.start(demo_proxy.run)
                outer.start_soon(_refresh, display)
                async with trio.open_nursery() as nursery:
                    producer = NumberedProducer(
                        bootstrap, topic, partitions=plan.partitions, per_second=plan.records_per_second
                    )
                    display.produced = lambda: producer.produced
                    nursery.start_soon(producer.run)
                    pools = tuple(
                        ConsumerPool(
                            group,
                            bootstrap=address,
                            topic=topic,
                            plan=plan,
                            nursery=nursery,
                            changed=display.changes.notify,
                        )
                        for group, address in ((classic, bootstrap), (moved, demo_proxy.bootstrap))
                    )
                    scenario = Scenario(display, kafka, plan, producer, pools, demo_proxy)
                    result = msgspec.structs.replace(await scenario.run(), session_s=session_s)
                outer.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + _CLEAN_UP_S):
            await kafka.remove(topic, [classic.group_id, moved.group_id])
    return result, moved.group_id


async def _refresh(display: DisplayModel) -> None:
    while True:
        display.view.refresh(display)
        await trio.sleep(_REFRESH_S)
