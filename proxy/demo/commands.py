"""Runs ``epochgate preflight`` and ``epochgate verify`` for the demo, as a person does before and after a move."""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import trio

_PROVEN = "proven"


class Owners(msgspec.Struct, frozen=True):
    """Times at which a partition had two owners, by class."""

    overlaps: dict[str, int]


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """What the demo shows of a certificate of ``epochgate verify`` (:mod:`pipeline.rules.certificate`)."""

    group: str
    verdict: str
    why: tuple[str, ...] = ()
    events: int
    members: dict[str, int]
    owners: Owners

    @property
    def is_proven(self) -> bool:
        """Whether the journal shows that no partition had two owners at once."""
        return self.verdict == _PROVEN

    def __str__(self) -> str:
        """Return the certificate in a line."""
        reasons = "".join(f"; {why}" for why in self.why)
        return (
            f"{self.group} is {self.verdict}: {sum(self.owners.overlaps.values())} times two owners at once, by "
            f"{self.events} events of {sum(self.members.values())} members{reasons}"
        )


class _Report(msgspec.Struct, frozen=True):
    certificates: tuple[Certificate, ...]


async def preflight(bootstrap: str, policy: str) -> str:
    """Return the last line of a preflight of the groups that this text of a policy file moves."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "policy.yaml"
        file.write_text(policy, encoding="utf-8")
        output = await _run("preflight", "--from", bootstrap, "--policy", str(file))
    return _last_line(output)


async def verify(journal: str, group_id: str) -> Certificate | str:
    """Return the certificate of a group by a folder with a proxy's journal; why there is none otherwise."""
    output = await _run("verify", "--journal", journal, "--group", group_id, "--output", "json")
    try:
        (certificate,) = msgspec.json.decode(output, type=_Report).certificates
    except (msgspec.DecodeError, ValueError):
        return f"no certificate: {_last_line(output)}"
    return certificate


async def _run(*arguments: str) -> bytes:
    command = [sys.executable, "-m", "proxy", *arguments]
    ended = await trio.run_process(command, capture_stdout=True, stderr=subprocess.STDOUT, check=False)
    return ended.stdout


def _last_line(output: bytes) -> str:
    return (output.decode(errors="replace").strip() or "no output").splitlines()[-1]
