"""Fuzz one target in this process, which ends with it: ``python -m tests.fuzz.in_process TARGET SECONDS``."""

import sys
from pathlib import Path

import atheris

from tests.fuzz import HERE, LEARNED

with atheris.instrument_imports(include=["protocol_codecs", "proxy", "translation"]):
    from tests.fuzz import targets
    from tests.fuzz.seeds import seeds

LONGEST_INPUT = 4096


def main(name: str, seconds: str) -> None:
    """Does not return."""
    learned, corpus = LEARNED / name, HERE / "corpus" / name
    for number, seed in enumerate(seeds(name)):
        (learned / f"seed-{number}").write_bytes(seed)
    arguments = [
        "fuzz",
        str(learned),
        *([str(corpus)] if corpus.exists() else []),
        f"-max_total_time={seconds}",
        f"-max_len={LONGEST_INPUT}",
        f"-artifact_prefix={learned}-crashes/",
        "-rss_limit_mb=1500",
        "-timeout=10",
    ]
    target = targets.TARGETS[name]

    def keeping(data: bytes) -> None:
        """libFuzzer keeps inputs that hang or fill memory, but not those that raise."""
        try:
            target(data)
        except Exception:
            (Path(f"{learned}-crashes") / "raised").write_bytes(data)
            raise

    atheris.Setup(arguments, keeping)
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
