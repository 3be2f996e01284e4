"""Groups of clients with custom assignors, which the policy allows: whole histories, with every invariant."""

from functools import partial
from unittest.mock import patch

import msgspec
import pytest

from tests.simulation import faults, world
from tests.simulation.plan import ClientPlan, Plan, make_plan
from tests.simulation.simulation import run
from translation.policy.policy import Mode, Policy, Rule

NAMES = ("lag-aware", "lag-aware-cooperative")
ALLOWING = partial(Policy, assignors_allowed=NAMES)


def with_custom_assignors(plan: Plan) -> Plan:
    """The same plan with clients of which each offers one custom assignor."""

    def custom(client: ClientPlan) -> ClientPlan:
        if client.habits is None:
            return client
        habits = msgspec.structs.replace(client.habits, protocols=(NAMES[client.habits.cooperative],))
        return msgspec.structs.replace(client, habits=habits)

    return msgspec.structs.replace(
        plan,
        clients=tuple(custom(client) for client in plan.clients),
        newcomers=tuple(custom(client) for client in plan.newcomers),
    )


@pytest.mark.parametrize("seed", range(40))
def test_a_group_with_allowed_assignors_is_translated_like_any_other(seed: int) -> None:
    def policy(mode: Mode) -> Policy:
        return ALLOWING(rules=(Rule(pattern=".*", mode=mode),))

    with (
        patch.object(faults, "Policy", ALLOWING),
        patch.object(world, "TRANSLATE_ALL", policy(Mode.TRANSLATE)),
        patch.object(world, "OBSERVE_ALL", policy(Mode.OBSERVE)),
    ):
        result = run(seed, with_custom_assignors(make_plan(seed)))
    assert result.failure is None, result.story


def test_without_the_policy_such_a_group_stays_classic() -> None:
    """So the test above would notice a policy that allows nothing: nobody is a member of the new protocol then."""
    result = run(0, with_custom_assignors(make_plan(0)))
    assert result.failure is not None
