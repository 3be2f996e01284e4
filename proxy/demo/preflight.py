"""Runs ``epochgate preflight`` on the demo's cluster, as a person does before a move."""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import trio


async def preflight(bootstrap: str, policy: str) -> str:
    """Return the last line of a preflight of the groups that this text of a policy file moves."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "policy.yaml"
        file.write_text(policy, encoding="utf-8")
        ended = await trio.run_process(
            [sys.executable, "-m", "proxy", "preflight", "--from", bootstrap, "--policy", str(file)],
            capture_stdout=True,
            stderr=subprocess.STDOUT,
            check=False,
        )
    return (ended.stdout.decode(errors="replace").strip() or "no output").splitlines()[-1]
