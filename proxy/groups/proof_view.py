"""What the live verification says of a group (docs/how-to/live-proof.md), as `/api/groups/{group_id}` has it."""

import msgspec

from pipeline.rules.certificate import Certificate, Compared


class ProofView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is proven of a group, as this process knows it. Times are seconds since 1970.

    ``state`` is ``live``; ``reading`` while the journal's topic is read up to its end; ``failed`` if it can't be read,
    and ``left out`` if there is no room for the group (``note`` says why); ``elsewhere`` if another replica verifies,
    which ``by`` names. ``scope`` says whose members it is about: ``all processes`` or ``this process only``.

    Nothing has spoken against the group from ``clean_since`` until the last look, ``looked_at``, if the ``verdict`` is
    ``proven``; ``why`` is what a look found last that did. It is ``violated`` as long as two owners are found in all
    that has been read, the last of them at ``violated_at``. What is ``provisional`` may change with later events.
    ``certificate`` is about all that has been read, as `epochgate verify` writes it; ``complete`` says whether nothing
    is missing in that. ``compared`` has the rebalances in all that has been read, once the group's move has settled.
    """

    state: str
    scope: str
    by: str
    note: str | None = None
    verdict: str | None = None
    provisional: bool = True
    clean_since: float | None = None
    looked_at: float | None = None
    why: tuple[str, ...] = ()
    violated_at: float | None = None
    complete: bool = False
    certificate: Certificate | None = None
    compared: tuple[Compared, ...] = ()
