"""Everything that a demo needs around its story, made and removed again: topic, proxy, producer, consumers."""

from uuid import uuid4

import trio

from proxy.demo.consumers import Troupe
from proxy.demo.display_model import Stage, View
from proxy.demo.group import DemoGroup
from proxy.demo.kafka import Kafka
from proxy.demo.members import MemberBoard
from proxy.demo.plan import STEPS, Plan
from proxy.demo.producer import NumberedProducer
from proxy.demo.proxy import Gateway
from proxy.demo.scenario import Story
from proxy.demo.verdict import Result
from translation.actions import Event, EventKind

CLASSIC, EPOCHGATE = "Classic", "Epochgate"
_NOTEWORTHY = frozenset({EventKind.PASSED_THROUGH, EventKind.FENCED, EventKind.SESSION_EXPIRED})
_REFRESH_S = 0.25
_CLEAN_UP_S = 10.0


async def perform(bootstrap: str, source: str, plan: Plan, view: View) -> Result:
    """One demo on the cluster behind ``bootstrap``.

    :raises DemoFailed: in exception groups: it could not be carried out.
    """
    kafka = Kafka(bootstrap)
    node_ids = await kafka.node_ids()
    topic = f"epochgate-demo-{uuid4().hex[:8]}"
    stage = Stage(source, len(STEPS), view)
    classic, translated = (
        DemoGroup(title, f"{topic}-{title.lower()}", plan.partitions, stage.say)
        for title in (CLASSIC, EPOCHGATE)
    )
    board = MemberBoard(translated.group_id)
    stage.groups = (classic, translated)
    stage.boards = {translated.group_id: board}

    def saw(event: Event) -> None:
        if event.kind in _NOTEWORTHY:
            stage.say(f"Epochgate: {event.client_id} {event.kind}: {event.reason}")
        if board.saw(event):
            stage.changes.happened()

    await kafka.create_topic(topic, plan.partitions)
    try:
        with view.showing(stage):
            async with trio.open_nursery() as around:
                gateway = Gateway(bootstrap, node_ids, translated.group_id, saw)
                await around.start(gateway.run)
                around.start_soon(_refresh, stage)
                async with trio.open_nursery() as nursery:
                    producer = NumberedProducer(
                        bootstrap, topic, partitions=plan.partitions, per_second=plan.records_per_second
                    )
                    stage.produced = lambda: producer.produced
                    nursery.start_soon(producer.run)
                    troupes = tuple(
                        (
                            Troupe(
                                group,
                                bootstrap=address,
                                topic=topic,
                                plan=plan,
                                nursery=nursery,
                                changed=stage.changes.happened,
                            ),
                            expected_type,
                        )
                        for group, address, expected_type in (
                            (classic, bootstrap, "classic"),
                            (translated, gateway.bootstrap, "consumer"),
                        )
                    )
                    result = await Story(stage, kafka, plan, producer, troupes).tell()
                around.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + _CLEAN_UP_S):
            await kafka.remove(topic, [classic.group_id, translated.group_id])
    return result


async def _refresh(stage: Stage) -> None:
    while True:
        stage.view.refresh(stage)
        await trio.sleep(_REFRESH_S)
