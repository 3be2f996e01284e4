"""Fuzzing: bytes that nobody thought of, for every decoder and for the stream of a connection.

``make fuzz SECONDS=60`` runs every target of ``targets.py`` for that long under atheris, which looks for inputs that
reach new code. An input that breaks something is written to ``corpus/<target>/``, and stays there as a test.
"""

from pathlib import Path

HERE = Path(__file__).parent
LEARNED = HERE.parents[1] / "build" / "fuzz"
"""Where the inputs are kept that reached new code."""
