--------------------------- MODULE TraceOwnership ---------------------------
(***************************************************************************)
(* Histories of the simulation, as behaviours of Ownership.tla. The module *)
(* History is written for each run by tests/formal/histories.py: what was  *)
(* seen of the real translation and the embedded coordinator, event by     *)
(* event.                                                                  *)
(***************************************************************************)
EXTENDS Naturals, Sequences, History

VARIABLES number, moment, own, kept

Seen == INSTANCE Ownership WITH Clients <- HistoryClients, Partitions <- HistoryPartitions

Shows(h, m) == own = Histories[h][m].own /\ kept = Histories[h][m].kept

Init ==
  /\ number \in 1..Len(Histories)
  /\ moment = 1
  /\ Shows(number, 1)

Next ==
  /\ moment < Len(Histories[number])
  /\ moment' = moment + 1
  /\ number' = number
  /\ own' = Histories[number][moment + 1].own
  /\ kept' = Histories[number][moment + 1].kept

IsOwnership == Seen!Spec
Exclusive == Seen!Exclusive
TypeOK == Seen!TypeOK

\* For the reader of a counterexample.
last == <<number, moment>>

=============================================================================
