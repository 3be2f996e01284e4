"""An experiment and a reference: groups of Connect workers as KIP-848 describes them. No broker of Kafka has them.

A worker is a member with an epoch. It declares assignors, what it runs, and what it has read of the topic of
configurations; the newest reading decides what has to be assigned. Whatever changes the group moves the group epoch.
Nothing here assigns anything: the coordinator tells one worker, the computing member, to do so (:mod:`computing`). It
asks for the group (:mod:`preparing`), and installs an assignment for the epoch that it was told (:mod:`installing`),
which is the target of the group if it is valid. Each worker then goes to the target by its own heartbeats: it gives up
first, and gets what nobody else has (:mod:`reconciliation`), so that a task has one owner at a time.

    what happens                                   group epoch    target
    a worker joins, leaves, is fenced              + 1            -
    an assignor's declaration changes              + 1            -
    a newer reading has other connectors or tasks  + 1            -
    a valid assignment is installed                -              for the epoch it was computed for

Workers that speak the classic protocol can be members, too (:mod:`classic_members`, :mod:`conversion`).

Nothing here waits, reads a clock, or draws a random number. State changes only by replaying records
(:mod:`replay`), one batch for each request, in a log of its own. :class:`~coordinator.connect_groups.coordinator.
ConnectGroupCoordinator` is the public interface.
"""
