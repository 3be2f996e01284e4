"""What ``helm test`` runs, where a cluster would show it only now and then."""

import importlib.util
import time
from types import ModuleType

import pytest
from confluent_kafka import KafkaError, KafkaException

from tools.chart.render import CHART


@pytest.fixture
def trial(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    for name in ("BOOTSTRAP", "TOPIC", "GROUP"):
        monkeypatch.setenv(name, "nobody")
    spec = importlib.util.spec_from_file_location("group_trial", CHART / "files" / "group_trial.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Calls:
    """A call that fails in these ways, one after another, and then succeeds."""

    def __init__(self, *errors: int) -> None:
        self.errors = list(errors)
        self.made = 0

    def __call__(self) -> str:
        self.made += 1
        if self.errors:
            raise KafkaException(KafkaError(self.errors.pop(0)))
        return "done"


def test_a_call_whose_connection_ends_is_made_again(trial):
    call = Calls(KafkaError._TRANSPORT, KafkaError._TRANSPORT)
    assert trial.repeated(call) == "done"
    assert call.made == 3


def test_an_answer_that_is_an_error_is_none_to_repeat(trial):
    call = Calls(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        trial.repeated(call)
    assert call.made == 1


def test_nothing_is_repeated_when_time_is_up(trial, monkeypatch):
    monkeypatch.setattr(trial, "DEADLINE", time.monotonic() - 1)
    with pytest.raises(KafkaException, match="_TRANSPORT"):
        trial.repeated(Calls(KafkaError._TRANSPORT))
