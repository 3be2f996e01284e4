------------------------------ MODULE Ownership ------------------------------
(***************************************************************************)
(* What any way of moving a group has to keep, whatever its protocol says: *)
(* who may work on a partition, and when it may be given to somebody else. *)
(*                                                                         *)
(* A client works on the partitions in `own`. The group's side, broker and *)
(* proxies together, holds in `kept` what it may not give to others: what  *)
(* a membership of the client is assigned, and what it was asked to revoke *)
(* and has not given up yet. Translation.tla refines this module, and the  *)
(* histories of the simulation are checked against it (TraceOwnership.tla).*)
(***************************************************************************)
EXTENDS Naturals

CONSTANTS Clients, Partitions

VARIABLES
  own,   \* own[c]: the partitions that client c works on
  kept   \* kept[c]: the partitions that nobody but c may be given

vars == <<own, kept>>

TypeOK ==
  /\ own \in [Clients -> SUBSET Partitions]
  /\ kept \in [Clients -> SUBSET Partitions]

Init ==
  /\ own = [c \in Clients |-> {}]
  /\ kept = [c \in Clients |-> {}]

\* A client may begin to work on what is kept for it, and give up anything at any time.
Owns(c) == own'[c] \subseteq kept[c] \/ own'[c] \subseteq kept'[c] \/ own'[c] \subseteq own[c]

\* What is kept for a client may grow by what is kept for nobody else, and shrink by what it does not work on.
Keeps(c) ==
  /\ own'[c] \subseteq kept'[c]
  /\ \A d \in Clients \ {c}: kept'[c] \cap kept'[d] = {}

Next == \A c \in Clients: Owns(c) /\ Keeps(c)

Spec == Init /\ [][Next]_vars

\* Invariant 1 of the design: no partition is in two clients' hands.
Exclusive == \A c, d \in Clients: c # d => own[c] \cap own[d] = {}

=============================================================================
