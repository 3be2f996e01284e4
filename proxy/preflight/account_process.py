"""The process that asks brokers with an account: ``python -m proxy.preflight.account_process``.

librdkafka parses what they answer, and some answers end its process. Only the preflight starts it
(:mod:`proxy.preflight.account`); it ends when its standard input does.
"""

import os
import sys
import threading

import msgspec

from proxy.preflight.account_messages import (
    ENCODER,
    GROUPS_IN_FRAME,
    MAX_GROUP_BYTES,
    QUESTION,
    BadAccount,
    Groups,
    Rest,
    SentGroup,
)
from proxy.preflight.ask_account import ask_account
from proxy.preflight.facts import BadProperty, Unknown
from proxy.runtime import child_process
from proxy.runtime.exit_codes import ExitCode
from proxy.runtime.frames import MAX_FRAME_BYTES


def main() -> None:
    """Ask, and write what the brokers say."""
    question = QUESTION.decode(next(child_process.orders(), b""))
    threading.Thread(target=_end_with_input, daemon=True).start()
    try:
        answers = ask_account(question.properties, question.timeout_s)
    except BadProperty as error:
        _say(BadAccount(str(error)))
        return
    if not isinstance(answers.groups, Unknown):
        batch: list[SentGroup] = []
        size = 0
        for group in map(SentGroup.of, answers.groups):
            length = len(ENCODER.encode(group))
            if length > MAX_GROUP_BYTES:
                group, length = _without_members(group), 0  # noqa: PLW2901
            if len(batch) == GROUPS_IN_FRAME or size + length > MAX_FRAME_BYTES // 2:
                _say(Groups(batch))
                batch, size = [], 0
            batch.append(group)
            size += length
        _say(Groups(batch))
    _say(Rest.of(answers))


def _without_members(group: SentGroup) -> SentGroup:
    why = Unknown(
        f"the brokers' answer about it has more than {MAX_GROUP_BYTES} bytes",
        "see to it by hand, then --accept it",
    )
    return msgspec.structs.replace(group, classic=None, members=why)


def _say(message: Groups | Rest | BadAccount) -> None:
    child_process.answer(ENCODER.encode(message))


def _end_with_input() -> None:
    """Whoever has asked is gone when the input ends."""
    sys.stdin.buffer.read()
    os._exit(ExitCode.SUCCESS)


if __name__ == "__main__":
    child_process.run(main)
