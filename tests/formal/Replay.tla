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
  calling,  \* the next step, if it is a part of the same call, or <<>>
  met,      \* met[c]: the proxies that have a translated membership of the client, true or not
  visited,  \* visited[c]: the proxies that have served it under the member id that it has
  asked,    \* asked[c]: those that remember that it was asked to rejoin
  moved,    \* the clients of which a proxy may think that they are elsewhere, since a connection was lost
  foreign   \* the clients with a member id that a consumer group has made: other proxies take them for native ones

\* The broker completes a rebalance at the last JoinGroup that it waits for.
CompletesNow == type = "classic" /\ phase = "Preparing" /\ waiting = mem

InOneCall ==
  /\ CompletesNow => last'[1] = "CompleteClassicRebalance"
  /\ calling # <<>> => last' = calling

Comes(step) == last'[1] = step
BeatChanges(m) == <<assigned'[m], revoking'[m], mEpoch'[m]>> # <<assigned[m], revoking[m], mEpoch[m]>>
IsAtRest(c) ==
  /\ Translated(c) /\ via[c] = helperAt /\ ~lost[c]
  /\ tEpoch = epoch /\ mEpoch[c] = epoch /\ assigned[c] = target[c] /\ revoking[c] = {}

AsTheCodeDecides ==
  /\ Comes("Adopt") => via[last'[2]] \notin met[last'[2]]
  /\ Comes("AdoptAgain") => via[last'[2]] \in met[last'[2]]
  \* A translated one is asked to go back.
  /\ Comes("HeartbeatAsNew") \/ Comes("LoseResponse") => Translates(last'[2])
  \* One that stays unknown is asked once.
  /\ Comes("AskToRejoin") => via[last'[2]] \notin asked[last'[2]]
  \* The helper waits until all that its proxy serves have voted, which moves nothing where all are at rest.
  /\ Comes("HelperLeaves") /\ policy[helperAt] = "translate" =>
       \A c \in Clients: (c \in new /\ via[c] = helperAt) \/ helperAt \in met[c] => IsAtRest(c)
  /\ Comes("HelperBeats") => ~HelperMayLeave
  \* A proxy may take a client that has died for one that stays, and one that stays for one that has gone.
  /\ Comes("HelperJoins") \/ Comes("JoinBack") =>
       \A c \in new \cap Clients: cs[c] # "dead" /\ (c \in moved => c = last'[2])
  \* What crosses, and a proxy that ends, is not played.
  /\ ~Comes("BeginCommit") /\ ~Comes("LoseHelper") /\ (Comes("HelperConverts") => faults' = faults)
  \* A session is ended by the broker here, so no proxy has a helper join before that.
  /\ ~Comes("HelperStandsIn")
  \* The helper speaks on the connection of a client. The first response of a conversion would be the helper's.
  /\ Comes("Die") \/ Comes("Reconnect") \/ Comes("LoseResponse") \/ Comes("LoseConversion") => Helper \notin mem
  \* A proxy that has relayed a JoinGroup and not seen the SyncGroup gives the client another member id when it comes
  \* back; where it was before, what is known of a classic member is of before.
  /\ Comes("Reconnect") /\ last'[2] \in Classics =>
       cs[last'[2]] # "joined" /\ via'[last'[2]] \notin visited[last'[2]]
  /\ Comes("Reconnect") \/ Comes("LoseConversion") => last'[2] \notin foreign \/ (Comes("Reconnect") /\ last'[2] \in Classics)
  \* The JoinGroup of a client that dies while it waits is a member's all the same.
  /\ Comes("Die") => cs[last'[2]] # "waiting"
  \* Heartbeats that change nothing would be most of the steps, and faults the first ones.
  /\ Comes("KeepAlive") => BeatChanges(last'[2])
  /\ Comes("HeartbeatAsNew") => last' # last
  /\ last'[1] \in {"Die", "Reconnect", "LoseResponse", "ChangePolicy"} => RandomElement(1..4) = 1

None == TLCEval([c \in Clients |-> {}])
ReplayInit == Init /\ calling = <<>> /\ met = None /\ visited = None /\ asked = None /\ moved = {} /\ foreign = {}

With(f, c) == [f EXCEPT ![c] = @ \cup {via'[c]}]
Without(f, c) == [f EXCEPT ![c] = @ \ {via'[c]}]
Joins == last'[1] \in {"JoinClassicGroup", "JoinAsClassic", "JoinAsNew"} /\ cs[last'[2]] = "out"

ReplayNext ==
  /\ Next /\ InOneCall /\ AsTheCodeDecides
  /\ calling' =
       CASE Comes("HelperConverts") /\ epoch' = epoch -> <<"ConvertMember", last'[2]>>
         [] Comes("HelperJoins") -> <<"JoinBack", last'[2]>>
         [] OTHER -> <<>>
  /\ met' =
       CASE last'[1] \in {"JoinAsNew", "Adopt", "ConvertMember", "RepeatConversion"} -> With(met, last'[2])
         [] Comes("JoinBack") -> Without(met, last'[2])
         [] Comes("StartAgain") -> [met EXCEPT ![last'[2]] = {}]
         [] OTHER -> met
  /\ visited' =
       CASE Joins \/ Comes("Reconnect") -> With(visited, last'[2])
         [] Comes("StartAgain") -> [visited EXCEPT ![last'[2]] = {}]
         [] OTHER -> visited
  /\ asked' =
       CASE Comes("AskToRejoin") \/ Comes("AskToGoBack") -> With(asked, last'[2])
         [] Comes("ConvertMember") \/ Comes("RepeatConversion") -> Without(asked, last'[2])
         [] Comes("StartAgain") -> [asked EXCEPT ![last'[2]] = {}]
         [] OTHER -> asked
  /\ moved' =
       CASE last'[1] \in {"Reconnect", "LoseResponse", "LoseConversion"} -> moved \cup {last'[2]}
         [] Comes("StartAgain") -> moved \ {last'[2]}
         [] OTHER -> moved
  /\ foreign' =
       CASE Joins -> IF Comes("JoinAsClassic") THEN foreign \cup {last'[2]} ELSE foreign \ {last'[2]}
         [] OTHER -> foreign

=============================================================================
