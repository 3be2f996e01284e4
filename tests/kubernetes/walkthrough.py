"""Follows the walkthrough to the letter in a real cluster: its files, its commands, in its order."""

import os
from pathlib import Path

from support.waiting import eventually

from tests.docs import pages

PAGE = Path("docs/tutorial/kubernetes.md")
BY_MAKE = {
    "make cluster-up",
    "make image",
    "make image TARGET=pipeline",
    "make cluster-kafka",
    "make cluster-down",
}
"""The fixtures have a cluster, its images and its brokers already."""
COMMAND_S, UNTIL_S = 900.0, 240.0


class Reader:
    """Does what the page says, in a folder of its own that has the chart, with a kubeconfig of its own."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        (folder / "charts").symlink_to(pages.ROOT / "charts")
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(Path(environment["KUBECONFIG"]).read_text())
        self.environment = os.environ | environment | {"KUBECONFIG": str(kubeconfig)}
        self.said: dict[str, str] = {}

    def do(self, step: pages.Command | pages.File) -> None:
        if isinstance(step, pages.File):
            (self.folder / step.name).write_text(step.text, encoding="utf-8")
        elif step.line in BY_MAKE or step.line.startswith("export "):
            pass
        elif step.until:
            eventually(
                lambda: self.output(step.line)[1],
                lambda shown: step.until in shown,
                what=f"{step.line} says {step.until}",
                timeout_s=UNTIL_S,
                between_s=2.0,
            )
        else:
            code, self.said[step.line] = self.output(step.line)
            assert code == 0, f"{step.line}\n{self.said[step.line]}"

    def output(self, line: str) -> tuple[int, str]:
        """What it does in the reader's folder."""
        return pages.output(line, self.folder, self.environment, COMMAND_S)
