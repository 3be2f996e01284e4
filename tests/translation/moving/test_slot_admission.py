"""Which clients are let into a group that moves by steps, whatever they say of themselves."""

from tests.translation.bench import GROUP, Bench
from translation.actions import EventKind
from translation.member_log.records import LONGEST_NAME
from translation.policy.policy import Mode, Policy, Rule
from translation.settings import TranslatorSettings

BY_STEPS = Policy(rules=(Rule(group=GROUP, mode=Mode.TRANSLATE, steps=(1, "50%")),))


def test_a_client_whose_names_are_too_long_for_a_record_stays_classic() -> None:
    bench = Bench(BY_STEPS)
    join = bench.join(bench.connect(), "", instance_id="i" * 30_000)
    bench.answer_lookups()
    assert bench.forwarded == [join]
    (said,) = (event for event in bench.events if event.kind is EventKind.PASSED_THROUGH)
    assert (
        said.reason == "its step moves only a part of the group, and a client id or instance id is too long"
    )
    assert not bench.translator._context.moves.slots(GROUP)


def test_a_client_whose_names_are_as_long_as_they_may_be_gets_a_slot() -> None:
    bench = Bench(BY_STEPS, settings=TranslatorSettings(first_member_wait_s=0))
    instance_id = "\N{GRINNING FACE}" * LONGEST_NAME
    bench.join(bench.connect(), "", instance_id=instance_id)
    bench.answer_lookups()
    bench.answer_lookups()
    assert bench.heartbeat_call().message.instance_id == instance_id
    slot = bench.translator._context.moves.slots(GROUP)[1].record.slot
    assert slot is not None
    assert slot.instance_id == instance_id
