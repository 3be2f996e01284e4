"""The scopes in which ``Translation.tla`` is checked, and the rules that are left out one at a time."""

from pathlib import Path

import msgspec

from tests.formal.checker import MODELS, Checked, check

MODULE = MODELS / "Translation.tla"
INVARIANTS = (
    "TypeOK", "Exclusive", "Held", "OneAssignee", "KnownToTheProxy", "Alive", "NotTimed", "Committed", "NotIllegal",
    "Covered", "Generations", "Converged",
)  # fmt: skip


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """Two clients and two partitions, with these bounds (see the module's constants)."""

    cooperative: bool = True
    proxies: int = 1
    epochs: int = 4
    changes: int = 1
    faults: int = 0
    mutation: str = "none"

    def __str__(self) -> str:
        protocol = "cooperative" if self.cooperative else "eager"
        bounds = f"epochs: {self.epochs}, changes: {self.changes}, faults: {self.faults}"
        return f"{protocol}, proxies: {self.proxies}, {bounds}"

    def settings(self) -> str:
        """Return the text of TLC's configuration."""
        whole = self.mutation == "none"
        return "\n".join(
            (
                "CONSTANTS",
                "  Clients = {c1, c2}",
                "  Helper = helper",
                "  Partitions = {p1, p2}",
                f"  Proxies = {{{', '.join(f'proxy{number}' for number in range(self.proxies))}}}",
                f"  Cooperative = {'TRUE' if self.cooperative else 'FALSE'}",
                f"  MaxEpoch = {self.epochs}",
                f"  MaxChanges = {self.changes}",
                f"  MaxFaults = {self.faults}",
                f'  Mutation = "{self.mutation}"',
                "INIT Init",
                "NEXT Next",
                "VIEW view",
                "SYMMETRY Symmetry",
                f"INVARIANTS {' '.join(INVARIANTS)}",
                *(("PROPERTY Refines",) if whole else ()),
                "CHECK_DEADLOCK FALSE",
            )
        )


SHORT = (
    Scope(epochs=3, changes=2),
    Scope(epochs=3, faults=1, proxies=2),
    Scope(cooperative=False, epochs=3, changes=2),
)
"""Checked in ``make test``."""

LONG = (
    Scope(changes=2, faults=1),
    Scope(cooperative=False, changes=2, faults=1),
    Scope(proxies=2, changes=2, faults=1),
    Scope(cooperative=False, proxies=2, changes=2, faults=1),
    Scope(epochs=5, changes=2),
    Scope(proxies=2, faults=2),
)

MUTANTS = (
    Scope(mutation="converts while partitions are given up", changes=2),
    Scope(mutation="converts while a commit is under way", faults=1),
    Scope(mutation="a conversion has no list"),
    Scope(mutation="a rebalance that the broker announces is not remembered", faults=1, changes=3),
    Scope(mutation="a proxy knows of the timers of others", proxies=2, faults=2),
    Scope(mutation="a partition without an owner stays so", faults=1),
    Scope(mutation="the helper leaves before all have the group epoch", changes=2),
    Scope(mutation="the last one goes back without a helper", changes=2),
    Scope(mutation="the last member ends while others lag behind", changes=2, faults=1),
    Scope(mutation="the way back names nothing", changes=2),
    Scope(mutation="a heartbeat has an empty list"),
    Scope(mutation="a heartbeat reports the assignment"),
    Scope(mutation="a JoinGroup reports the assignment"),
    Scope(mutation="a JoinGroup reports nothing"),
    Scope(mutation="SyncGroup gives the target"),
    Scope(mutation="what the client had is forgotten at SyncGroup", faults=1),
    Scope(mutation="an adopted member goes on without a rejoin", proxies=2, faults=1),
    Scope(mutation="a former proxy ends the membership", proxies=2, faults=1),
)
"""Each leaves out one rule of the proxies; TLC has to find what goes wrong."""


def explore(scope: Scope, folder: Path) -> Checked:
    """Check the module in a scope (:func:`.check`)."""
    return check(MODULE, scope.settings(), folder)
