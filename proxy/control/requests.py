"""Makes a command of an HTTP request, and an answer of what became of it, with its status code
(docs/how-to/control.md).
"""

import re
from collections.abc import Awaitable, Callable
from uuid import uuid4

import msgspec

from protocol_codecs.foreign import JsonDecoder, Undecodable
from proxy.control.http_exchange import BODY_BYTES, HttpAnswer, HttpRequest
from translation.member_log.group_records import LONGEST_WORDS
from translation.moving.command_writes import CommandOutcome, CommandState
from translation.policy.policy import LONGEST_GROUP_ID
from translation.policy.steps import MOST_STEPS
from translation.rollout.commands import Command, CommandKind

RunCommand = Callable[[Command], Awaitable[CommandOutcome]]
"""Has a command obeyed."""

PATHS = {f"/v1/{act}": act for act in CommandKind}
"""The targets that are known, each for one command."""

_ID = re.compile(r"[A-Za-z0-9-]{1,64}", re.ASCII)
_POLICY = re.compile(r"[0-9a-f]{0,64}", re.ASCII)

_STATUS = {
    CommandState.DONE: 200,
    CommandState.REFUSED: 409,
    CommandState.PENDING: 503,
    CommandState.UNAVAILABLE: 503,
}


class CommandBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The body of a request. ``policy`` and ``step`` say what is approved; ``why`` is for people.

    ``id`` names the command: whoever sends it again, because the answer was lost, sends it with the same.
    """

    group: str
    policy: str = ""
    step: int = 0
    why: str = ""
    id: str = ""


class CommandAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The body of an answer: what has become of a command, and how the move is now."""

    group: str
    act: str
    outcome: CommandOutcome


_decoder = JsonDecoder(CommandBody, BODY_BYTES)


class NotACommand(Exception):
    """The request is none that is taken here; ``answer`` says why."""

    def __init__(self, status: int, why: str, *headers: tuple[str, str]) -> None:
        super().__init__(why)
        self.answer = HttpAnswer(status, {"error": why}, headers)


def command_of(request: HttpRequest, by: str) -> Command:
    """Return the command that a request of ``by`` gives.

    :raises NotACommand: it gives none.
    """
    act = PATHS.get(request.target)
    if act is None:
        raise NotACommand(404, f"there are {', '.join(PATHS)}")
    if request.method != "POST":
        raise NotACommand(405, "commands are POSTed", ("Allow", "POST"))
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise NotACommand(415, "a command is application/json")
    try:
        body = _decoder.decode(request.body)
    except Undecodable as error:
        raise NotACommand(400, f"the body is no command: {error}"[:LONGEST_WORDS]) from None
    if not 0 < len(body.group) <= LONGEST_GROUP_ID:
        raise NotACommand(400, f"`group` has 1 to {LONGEST_GROUP_ID} characters")
    if not 0 <= body.step <= MOST_STEPS:
        raise NotACommand(400, f"`step` is at most {MOST_STEPS}")
    if len(body.why) > LONGEST_WORDS or not body.why.isprintable():
        raise NotACommand(400, f"`why` is one line of at most {LONGEST_WORDS} characters")
    if _POLICY.fullmatch(body.policy) is None:
        raise NotACommand(400, "`policy` is the digest that the group's page shows")
    if body.id and _ID.fullmatch(body.id) is None:
        raise NotACommand(400, "`id` is 1 to 64 letters, digits and hyphens")
    return Command(
        id=body.id or str(uuid4()),
        act=act,
        group=body.group,
        by=by,
        why=body.why,
        policy=body.policy,
        step=body.step,
    )


def answer_of(command: Command, outcome: CommandOutcome) -> HttpAnswer:
    """Return the answer that says what has become of a command."""
    answer = CommandAnswer(group=command.group, act=command.act, outcome=outcome)
    return HttpAnswer(_STATUS[outcome.state], answer)
