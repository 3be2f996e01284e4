"""The exception by which an observer reports that an invariant does not hold."""


class Violation(AssertionError):
    """An invariant does not hold; ``number`` is its number in :mod:`tests.simulation.watch`."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(f"invariant {number}: {text}")
        self.number = number
