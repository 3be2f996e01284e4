"""What fuzzing has found stays found; and a short search with Hypothesis in every run of the tests."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz import HERE
from tests.fuzz.seeds import seeds
from tests.fuzz.targets import TARGETS

every_target = pytest.mark.parametrize("name", TARGETS)


@every_target
def test_what_was_found_stays_repaired(name: str) -> None:
    for file in sorted((HERE / "corpus" / name).glob("*")):
        TARGETS[name](file.read_bytes())


@every_target
def test_valid_inputs_are_taken(name: str) -> None:
    for seed in seeds(name):
        TARGETS[name](seed)


@every_target
@settings(max_examples=300, suppress_health_check=[HealthCheck.data_too_large])
@given(data=st.data())
def test_bytes_that_nobody_thought_of(name: str, data: st.DataObject) -> None:
    """Random bytes, and valid inputs with some bytes changed, cut or repeated."""
    valid = _valid(name)
    if not valid or data.draw(st.integers(0, 4)) == 0:
        TARGETS[name](data.draw(st.binary(max_size=200)))
        return
    damaged = bytearray(data.draw(st.sampled_from(valid)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(len(damaged) - 1, 0)))
        match data.draw(st.integers(0, 2)):
            case 0:
                damaged[at : at + 1] = data.draw(st.binary(max_size=4))
            case 1:
                del damaged[at : at + data.draw(st.integers(1, 8))]
            case _:
                damaged[at:at] = damaged[at : at + data.draw(st.integers(1, 30))]
    TARGETS[name](bytes(damaged))


_inputs: dict[str, list[bytes]] = {}


def _valid(name: str) -> list[bytes]:
    if name not in _inputs:
        _inputs[name] = list(seeds(name))
    return _inputs[name]
