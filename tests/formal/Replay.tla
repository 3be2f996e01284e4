------------------------------- MODULE Replay -------------------------------
(***************************************************************************)
(* The behaviours of Translation.tla that tests/formal/replay.py plays on  *)
(* the real translation and the embedded coordinator. Every step here is   *)
(* one of the model. But where several steps are one call for the code,    *)
(* nothing comes in between; and where the code decides by what it sees    *)
(* and the model leaves it open, the step is the one that the code takes.  *)
(***************************************************************************)
EXTENDS Translation

VARIABLES
  joining,  \* the client whose JoinGroup has ended a membership and goes on, or "nobody"
  met       \* met[c]: the proxies that have served the client's membership of the new protocol

JoinSteps == {"JoinClassicGroup", "JoinAsClassic", "JoinAsNew"}

\* The broker completes a rebalance at the last JoinGroup that it waits for.
CompletesNow == type = "classic" /\ phase = "Preparing" /\ waiting = mem

\* A JoinGroup that has converted the group ends the client's classic membership before it is answered.
EndsClassicNow(c) == id[c] = "new" /\ {Classic(c), New(c)} \subseteq mem

InOneCall ==
  /\ CompletesNow => last'[1] = "CompleteClassicRebalance"
  /\ \A c \in Clients: EndsClassicNow(c) => last' = <<"EndClassicMembership", c>>
  /\ joining # "nobody" => last'[1] \in JoinSteps \cup {"EndLeftoverMembership"} /\ last'[2] = joining

Comes(step) == last'[1] = step
Translates(c) == policy[via[c]] = "translate"

BeatChanges(m) == <<assigned'[m], revoking'[m], mEpoch'[m]>> # <<assigned[m], revoking[m], mEpoch[m]>>

AsTheCodeDecides ==
  \* A classic member of a consumer group is told to move at its next Heartbeat, or moved by a JoinGroup without partitions.
  /\ Comes("HeartbeatAsClassic") => ~Translates(last'[2]) \/ type = "classic"
  /\ Comes("JoinAsClassic") => ~Translates(last'[2]) \/ Said(last'[2]) # {}
  /\ Comes("Adopt") => via[last'[2]] \notin met[last'[2]]
  /\ Comes("AdoptAgain") => via[last'[2]] \in met[last'[2]]
  \* A translated one is told to move back.
  /\ Comes("HeartbeatAsNew") \/ Comes("LoseResponse") => Translates(last'[2])
  \* A JoinGroup that can't go on waits in the proxy.
  /\ Comes("EndLeftoverMembership") => ~CompletesNow' /\ (Translates(last'[2]) => type = "consumer" /\ IsConvertible')
  \* A translated client that comes to a proxy which translates nothing is refused.
  /\ \A c \in Clients: id[c] = "new" /\ ps'[c] = "Absent" => policy'[via'[c]] = "translate"
  \* A proxy that has relayed a JoinGroup and not seen the SyncGroup gives the client another member id when it comes back.
  /\ Comes("Reconnect") => id[last'[2]] # "classic" \/ cs[last'[2]] # "joined"
  \* The JoinGroup of a client that dies while it waits is a member's all the same.
  /\ Comes("Die") => cs[last'[2]] # "waiting"
  \* Translation.tla has the former way of a live move, by UNKNOWN_MEMBER_ID and another membership; the code converts
  \* members in place. So no member of either protocol comes to a proxy whose policy would move it.
  /\ \A c \in Clients: id[c] = "classic" => policy'[via'[c]] = "observe"
  /\ \A c \in Clients: id[c] = "new" => policy'[via'[c]] = "translate"
  \* Heartbeats that change nothing would be most of the steps, and faults the first ones.
  /\ Comes("KeepAlive") => BeatChanges(New(last'[2]))
  /\ Comes("HeartbeatAsNew") => last' # last
  /\ last'[1] \in {"Die", "Reconnect", "LoseResponse", "ChangePolicy"} => RandomElement(1..4) = 1

ReplayInit == Init /\ joining = "nobody" /\ met = TLCEval([c \in Clients |-> {}])
ReplayNext ==
  /\ Next /\ InOneCall /\ AsTheCodeDecides
  /\ joining' =
       CASE last'[1] \in {"EndNewMembership", "EndLeftoverMembership"} -> last'[2]
         [] last'[1] = "TellToMove" /\ cs[last'[2]] = "told" -> last'[2]
         [] OTHER -> "nobody"
  /\ met' =
       CASE Comes("JoinAsNew") -> [met EXCEPT ![last'[2]] = {via[last'[2]]}]
         [] Comes("Adopt") -> [met EXCEPT ![last'[2]] = @ \cup {via[last'[2]]}]
         [] OTHER -> met

=============================================================================
