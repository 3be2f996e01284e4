"""Behaviours of the model that TLC chooses by chance: run it in simulation mode, and read the states that it writes."""

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tests.formal.checker import MODELS, TlcError
from tools.tla.jars import ensure_tlc

_MODULE = "Replay"
_SYMBOLS = ("<<", ">>", ":>", "@@", "{", "}", "(", ")", ",")


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """In which world a trace is: two clients with one rebalance protocol, and one proxy or two."""

    cooperative: bool
    proxies: int

    def __str__(self) -> str:
        return f"{'cooperative' if self.cooperative else 'eager'}, proxies: {self.proxies}"


SETTINGS = tuple(
    Setting(cooperative=cooperative, proxies=proxies) for cooperative in (True, False) for proxies in (1, 2)
)


class State(msgspec.Struct, frozen=True):
    """A state of the model: its variables. Sets are frozensets, tuples are tuples, functions are dicts."""

    of: Mapping[str, Any]

    @property
    def step(self) -> str:
        """The action that led here."""
        name: str = self.of["last"][0]
        return name

    @property
    def whose(self) -> str:
        """The client, or the proxy, whose action it was; empty for one of the whole group."""
        last = self.of["last"]
        return last[1] if len(last) > 1 else ""


Trace = tuple[State, ...]


def draw(setting: Setting, *, traces: int, seed: int, folder: Path, depth: int = 60) -> list[Trace]:
    """Let TLC choose so many behaviours; the same seed gives the same ones. ``folder`` is for TLC's files.

    :raises TlcError: TLC did not write them.
    """
    for one in MODELS.glob("*.tla"):
        shutil.copy(one, folder)
    (folder / f"{_MODULE}.cfg").write_text(_settings(setting))
    command = [
        "java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", str(ensure_tlc()), "tlc2.TLC",
        "-simulate", f"file=trace,num={traces}", "-seed", str(seed), "-depth", str(depth),
        "-workers", "1", "-metadir", "states", _MODULE,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    written = sorted(folder.glob("trace_*"), key=lambda path: int(path.name.rsplit("_", 1)[1]))
    if "Error" in done.stdout or len(written) != traces:
        raise TlcError(done.stdout[done.stdout.find("Error") :][:4000] or done.stderr)
    return [read_trace(path.read_text()) for path in written]


def _settings(setting: Setting) -> str:
    return "\n".join(
        (
            "CONSTANTS",
            "  Clients = {c1, c2}",
            "  Helper = helper",
            "  Partitions = {p1, p2}",
            f"  Proxies = {{{', '.join(f'proxy{number}' for number in range(setting.proxies))}}}",
            f"  Cooperative = {'TRUE' if setting.cooperative else 'FALSE'}",
            "  MaxEpoch = 20",
            "  MaxChanges = 4",
            "  MaxFaults = 3",
            '  Mutation = "none"',
            "INIT ReplayInit",
            "NEXT ReplayNext",
            "INVARIANTS Exclusive Held OneAssignee Alive",
            "CHECK_DEADLOCK FALSE",
        )
    )


def read_trace(text: str) -> Trace:
    """Read a trace as TLC writes it: ``STATE_1 ==`` and lines ``/\\ variable = value``."""
    states = []
    for block in text.split("STATE_")[1:]:
        _, _, body = block.partition("==")
        variables = {}
        for conjunct in body.partition("\n\n")[0].split("/\\ ")[1:]:
            name, _, value = conjunct.partition(" = ")
            variables[name.strip()] = _read(value)
        states.append(State(variables))
    return tuple(states)


def _read(text: str) -> Any:
    words = list(_words(text))
    value, rest = _value(words, 0)
    if rest != len(words):
        raise ValueError(f"not read to its end: {text}")
    return value


def _words(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        symbol = next((one for one in _SYMBOLS if text.startswith(one, at)), None)
        if text[at].isspace():
            at += 1
        elif symbol is not None:
            yield symbol
            at += len(symbol)
        elif text[at] == '"':
            end = text.index('"', at + 1)
            yield text[at : end + 1]
            at = end + 1
        else:
            end = at
            while end < len(text) and (text[end].isalnum() or text[end] in "_-"):
                end += 1
            if end == at:
                break  # the line under the last state
            yield text[at:end]
            at = end


def _value(words: list[str], at: int) -> tuple[Any, int]:
    word = words[at]
    match word:
        case "{":
            members, at = _sequence(words, at + 1, "}")
            return frozenset(members), at
        case "<<":
            members, at = _sequence(words, at + 1, ">>")
            return tuple(members), at
        case "(":
            function = {}
            at += 1
            while words[at] != ")":
                if words[at] == "@@":
                    at += 1
                key, at = _value(words, at)
                function[key], at = _value(words, at + 1)
            return function, at + 1
        case "TRUE" | "FALSE":
            return word == "TRUE", at + 1
    if word.startswith('"'):
        return word[1:-1], at + 1
    return (int(word) if word.lstrip("-").isdigit() else word), at + 1


def _sequence(words: list[str], at: int, end: str) -> tuple[list[Any], int]:
    members = []
    while words[at] != end:
        if words[at] == ",":
            at += 1
        member, at = _value(words, at)
        members.append(member)
    return members, at + 1
