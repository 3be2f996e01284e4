----------------------------- MODULE Translation -----------------------------
(***************************************************************************)
(* A consumer group that Epochgate moves to the new protocol and back: its *)
(* clients, which speak the classic protocol; two proxies, which relay or  *)
(* translate what they say; and the broker, which converts the group when  *)
(* its first member of the new protocol joins (KIP-848, "Supporting Online *)
(* Consumer Group Upgrade") and makes it a classic one when the last such  *)
(* member leaves.                                                          *)
(*                                                                         *)
(* Checked by TLC: no partition has two owners (Exclusive), a revocation   *)
(* is acknowledged only after proof (Held), generations and epochs only    *)
(* grow, and where nothing can happen any more every client has what the   *)
(* broker assigns to it (Converged).                                       *)
(*                                                                         *)
(* What is simplified: one topic; a request and the broker's work on it    *)
(* are one step, but a response may be lost; an assignor is any total      *)
(* assignment, newly chosen whenever the group epoch moves; time passes    *)
(* only by sessions of dead clients that expire. A client that outlives    *)
(* its own timeouts is outside of its contract, and not here.              *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
  Clients, Partitions, Proxies,
  Cooperative,  \* the clients' rebalance protocol: TRUE for cooperative, FALSE for eager
  MaxEpoch,     \* the group epoch that ends an exploration
  MaxChanges,   \* how often the policy changes at a proxy
  MaxFaults,    \* clients that die, connections that move to the other proxy, responses that are lost
  Mutation      \* "none", or a rule of the proxies that is left out, to show that an invariant needs it

VARIABLES
  (* The broker *)
  type,      \* "empty", "classic" or "consumer"
  phase,     \* of a classic group: "Stable", or "Preparing" while it waits for JoinGroups
  epoch,     \* the group epoch; a classic group's generation
  mem,       \* the memberships: <<client, "classic">> or <<client, "new">>
  mEpoch,    \* the member epoch of each membership; of a classic one its generation
  target,    \* the target assignment
  tEpoch,    \* its epoch: the group epoch it was computed for; 0 in a classic group
  assigned,  \* what a membership is assigned now
  revoking,  \* what it was assigned before and has not given up yet
  claims,    \* what the last JoinGroup of a classic membership said it owned
  waiting,   \* the classic memberships whose JoinGroup waits for the others
  (* The clients *)
  cs,        \* "out", "waiting", "joined", "stable", "told" or "dead"
  id,        \* the kind of membership whose member id the client uses: "none", "classic" or "new"
  gen,       \* the client's generation
  own,       \* the partitions it works on
  via,       \* the proxy it is connected to
  (* The proxies *)
  policy,    \* policy[p]: "observe" or "translate"
  ps,        \* the state of a client's translated membership at the proxy that serves it
  known,     \* broker_assignment: what the broker's last response assigned
  synced,    \* synced_assignment: what the last SyncGroup gave to the client
  possibly,  \* possibly_owned: what the client may be working on
  pending,   \* pending_revocation: what the broker withdrew, and no list that it got has given up
  lost,      \* whether the broker's last response was lost
  (* How much has happened *)
  changes, faults,
  last       \* the last step, for the replay of a history; no part of the state

broker == <<type, phase, epoch, mem, mEpoch, target, tEpoch, assigned, revoking, claims, waiting>>
client == <<cs, id, gen, own, via>>
proxy  == <<ps, known, synced, possibly, pending, lost>>
bounds == <<changes, faults>>
vars   == <<broker, client, policy, proxy, bounds, last>>
view   == <<broker, client, policy, proxy, bounds>>

Members == Clients \X {"classic", "new"}
NoList == {"null"}  \* a heartbeat whose list of owned partitions is null: it acknowledges nothing

OwnerOf(m) == m[1]
IsNew(m) == m[2] = "new"
Classic(c) == <<c, "classic">>
New(c) == <<c, "new">>
Mine(c) == {m \in mem: OwnerOf(m) = c}

-----------------------------------------------------------------------------
(* The broker *)

\* Every assignment of all partitions to these memberships; nothing if there are none.
Assignments(members) ==
  IF members = {} THEN {TLCEval([m \in Members |-> {}])}
  ELSE {TLCEval([m \in Members |-> {p \in Partitions: f[p] = m}]): f \in [Partitions -> members]}

\* What a heartbeat with this owned list makes of a membership (Kafka's CurrentAssignmentBuilder).
Reconciled(m, list, members, goal, goalEpoch, a, r, e) ==
  LET withholds(set) == set # {} /\ (list = NoList \/ list \cap set # {})
      taken == UNION {a[n] \cup r[n]: n \in members \ {m}}
      lose == a[m] \ goal[m]
  IN IF withholds(r[m]) THEN [assigned |-> a[m], revoking |-> r[m], epoch |-> e[m]]
     ELSE IF withholds(lose) THEN [assigned |-> a[m] \cap goal[m], revoking |-> lose, epoch |-> e[m]]
     ELSE [assigned |-> (a[m] \cap goal[m]) \cup (goal[m] \ taken), revoking |-> {}, epoch |-> goalEpoch]

\* The broker takes a heartbeat of m, after the group has become this.
Heartbeat(m, list, members, goal, goalEpoch, a, r, e) ==
  LET now == Reconciled(m, list, members, goal, goalEpoch, a, r, e)
  IN /\ assigned' = [a EXCEPT ![m] = now.assigned]
     /\ revoking' = [r EXCEPT ![m] = now.revoking]
     /\ mEpoch' = [e EXCEPT ![m] = now.epoch]

\* A heartbeat of a member: the first after somebody has left computes the target assignment anew.
Beat(m, list) ==
  /\ \E goal \in IF tEpoch < epoch THEN Assignments(mem) ELSE {target}:
       /\ target' = goal
       /\ Heartbeat(m, list, mem, goal, epoch, assigned, revoking, mEpoch)
  /\ tEpoch' = epoch
  /\ UNCHANGED <<type, phase, epoch, mem, claims, waiting>>

\* A membership joins a consumer group, or a group that it converts: the group epoch moves.
JoinConsumerGroup(m, list, said) ==
  /\ type' = "consumer"
  /\ phase' = "Stable"
  /\ waiting' = {}
  /\ epoch' = epoch + 1 /\ tEpoch' = epoch + 1
  /\ mem' = mem \cup {m}
  /\ claims' = [claims EXCEPT ![m] = said]
  /\ \E goal \in Assignments(mem \cup {m}):
       /\ target' = goal
       /\ Heartbeat(m, list, mem \cup {m}, goal, epoch + 1, assigned, revoking, mEpoch)

\* A membership ends. A consumer group keeps its target assignment for the others until the next heartbeat. If no other
\* member of the new protocol is left, it becomes a classic group: the broker takes for owned what was the target, and
\* waits for everybody's JoinGroup; the generation moves when all have joined.
Leave(m) ==
  LET rest == mem \ {m}
      without(f) == [f EXCEPT ![m] = {}]
  IN /\ mem' = rest
     /\ mEpoch' = [mEpoch EXCEPT ![m] = 0]
     /\ waiting' = waiting \ {m}
     /\ claims' = without(claims)
     /\ target' = without(target)
     /\ IF rest = {} THEN
          /\ type' = "empty" /\ phase' = "Stable" /\ epoch' = epoch + 1 /\ tEpoch' = epoch + 1
          /\ assigned' = without(assigned) /\ revoking' = without(revoking)
        ELSE IF type = "classic" \/ \A n \in rest: ~IsNew(n) THEN
          /\ type' = "classic" /\ phase' = "Preparing" /\ tEpoch' = 0
          /\ UNCHANGED epoch
          /\ assigned' = IF type = "classic" THEN without(assigned) ELSE without(target)
          /\ revoking' = TLCEval([n \in Members |-> {}])
        ELSE
          /\ type' = "consumer" /\ phase' = phase /\ epoch' = epoch + 1
          /\ UNCHANGED tEpoch
          /\ assigned' = without(assigned) /\ revoking' = without(revoking)

-----------------------------------------------------------------------------
(* Clients of the classic protocol, relayed *)

\* What a client says it owns when it joins again; an eager one has stopped everything.
Said(c) == IF Cooperative THEN own[c] ELSE {}
StopsBeforeJoin(c) == [own EXCEPT ![c] = Said(c)]

Wants(c) == cs[c] \in {"out", "told"}

\* What the proxy forgets of a client that it does not translate, or not any more.
Forgets(c) ==
  /\ ps' = [ps EXCEPT ![c] = "Absent"]
  /\ known' = [known EXCEPT ![c] = {}]
  /\ synced' = [synced EXCEPT ![c] = {}]
  /\ possibly' = [possibly EXCEPT ![c] = {}]
  /\ pending' = [pending EXCEPT ![c] = {}]
  /\ lost' = [lost EXCEPT ![c] = FALSE]

\* A JoinGroup that is relayed: the policy says so, or the client has a classic membership and its id. One that was told
\* to move has forgotten that id; the membership that it left behind ends first (EndLeftoverMembership).
IsRelayed(c) ==
  /\ Wants(c) /\ id[c] # "new" /\ New(c) \notin mem
  /\ IF Classic(c) \in mem THEN id[c] = "classic" ELSE policy[via[c]] = "observe"

\* A JoinGroup that reaches a classic group, or one without members, waits for those of the others.
JoinClassicGroup(c) ==
  /\ IsRelayed(c) /\ type # "consumer"
  /\ type' = "classic" /\ phase' = "Preparing" /\ tEpoch' = 0
  /\ mem' = mem \cup {Classic(c)}
  /\ waiting' = waiting \cup {Classic(c)}
  /\ claims' = [claims EXCEPT ![Classic(c)] = Said(c)]
  /\ cs' = [cs EXCEPT ![c] = "waiting"]
  /\ id' = [id EXCEPT ![c] = "classic"]
  /\ own' = StopsBeforeJoin(c)
  /\ gen' = [gen EXCEPT ![c] = 0]
  /\ last' = <<"JoinClassicGroup", c>>
  /\ UNCHANGED <<epoch, mEpoch, target, assigned, revoking, via, policy, proxy, bounds>>

\* All have joined. The leader's assignor gives to nobody else what a cooperative member has said it owns.
CompleteClassicRebalance ==
  /\ type = "classic" /\ phase = "Preparing" /\ waiting = mem
  /\ phase' = "Stable" /\ epoch' = epoch + 1 /\ waiting' = {}
  /\ mEpoch' = TLCEval([m \in Members |-> IF m \in mem THEN epoch + 1 ELSE 0])
  /\ \E goal \in Assignments(mem):
       LET free(m) == {p \in goal[m]: \A n \in mem \ {m}: p \notin claims[n]}
           given == TLCEval([m \in Members |-> IF m \in mem THEN free(m) ELSE {}])
       IN assigned' = given /\ target' = given
  /\ cs' = TLCEval([c \in Clients |-> IF Classic(c) \in mem /\ cs[c] = "waiting" THEN "joined" ELSE cs[c]])
  /\ gen' = TLCEval([c \in Clients |-> IF Classic(c) \in mem /\ cs[c] = "waiting" THEN epoch + 1 ELSE gen[c]])
  /\ last' = <<"CompleteClassicRebalance">>
  /\ UNCHANGED <<type, mem, tEpoch, revoking, claims, id, own, via, policy, proxy, bounds>>

\* A classic client joins a consumer group: the broker answers at once.
JoinAsClassic(c) ==
  /\ IsRelayed(c) /\ type = "consumer"
  /\ IF Classic(c) \in mem
     THEN /\ Beat(Classic(c), Said(c))
     ELSE JoinConsumerGroup(Classic(c), Said(c), Said(c))
  /\ cs' = [cs EXCEPT ![c] = "joined"]
  /\ id' = [id EXCEPT ![c] = "classic"]
  /\ gen' = [gen EXCEPT ![c] = mEpoch'[Classic(c)]]
  /\ own' = StopsBeforeJoin(c)
  /\ last' = <<"JoinAsClassic", c>>
  /\ UNCHANGED <<via, policy, proxy, bounds>>

\* Whether the broker answers a classic member REBALANCE_IN_PROGRESS.
HasToRejoin(m) ==
  IF type = "classic" THEN phase = "Preparing"
  ELSE \/ mEpoch[m] < tEpoch \/ revoking[m] # {}
       \/ LET lacks == target[m] \ assigned[m]
              taken == UNION {assigned[n] \cup revoking[n]: n \in mem \ {m}}
          IN lacks # {} /\ lacks \cap taken = {}

\* A classic group that was a consumer group refuses the generation of a member that was behind the group epoch: such a
\* client loses its partitions, keeps its member id and joins again.
IsOfAnOlderGeneration(c) == type = "classic" /\ gen[c] # epoch
LosesPartitions(c) ==
  /\ own' = [own EXCEPT ![c] = {}]
  /\ gen' = [gen EXCEPT ![c] = 0]
  /\ cs' = [cs EXCEPT ![c] = "told"]

SyncAsClassic(c) ==
  LET m == Classic(c) IN
  /\ cs[c] = "joined" /\ id[c] = "classic" /\ m \in mem
  /\ IF IsOfAnOlderGeneration(c) THEN LosesPartitions(c)
     ELSE IF IF type = "classic" THEN phase = "Preparing" ELSE mEpoch[m] < tEpoch /\ revoking[m] = {}
     THEN cs' = [cs EXCEPT ![c] = "told"] /\ UNCHANGED <<own, gen>>
     ELSE /\ own' = [own EXCEPT ![c] = assigned[m]]
          /\ cs' = [cs EXCEPT ![c] = IF own[c] \subseteq assigned[m] THEN "stable" ELSE "told"]
          /\ UNCHANGED gen
  /\ last' = <<"SyncAsClassic", c>>
  /\ UNCHANGED <<broker, id, via, policy, proxy, bounds>>

HeartbeatAsClassic(c) ==
  /\ cs[c] = "stable" /\ id[c] = "classic" /\ Classic(c) \in mem
  /\ IF IsOfAnOlderGeneration(c) THEN LosesPartitions(c)
     ELSE HasToRejoin(Classic(c)) /\ cs' = [cs EXCEPT ![c] = "told"] /\ UNCHANGED <<own, gen>>
  /\ last' = <<"HeartbeatAsClassic", c>>
  /\ UNCHANGED <<broker, id, via, policy, proxy, bounds>>

-----------------------------------------------------------------------------
(* Moves between the protocols *)

\* One client after another: nobody else is on its way.
MayMove(c) == \A d \in Clients \ {c}: ~(cs[d] = "out" /\ Mine(d) # {})

\* A Heartbeat is answered UNKNOWN_MEMBER_ID: the client takes its partitions for lost and joins anew. Its membership
\* stays until that JoinGroup.
IsTold(c) ==
  /\ cs' = [cs EXCEPT ![c] = "out"]
  /\ id' = [id EXCEPT ![c] = "none"]
  /\ own' = [own EXCEPT ![c] = {}]
  /\ gen' = [gen EXCEPT ![c] = 0]

\* Whether the broker takes each classic member's assignment rightly for what the member owns.
IsConvertible ==
  \/ type # "classic"
  \/ /\ phase = "Stable" \/ Mutation = "the last member does not wait"  \* this heartbeat was on its way
     /\ \/ \A m \in mem: claims[m] \subseteq assigned[m]
        \/ Mutation = "converts while partitions are given up"

\* A client whose proxy knows its membership, and whose JoinGroup is answered: that comes after its classic one has ended.
Translated(c) == id[c] = "new" /\ New(c) \in mem /\ Classic(c) \notin mem /\ ps[c] # "Absent"

\* By its Heartbeat; or by a JoinGroup of a client that owns nothing, in a group that is a consumer group already.
TellToMove(c) ==
  /\ id[c] = "classic" /\ Classic(c) \in mem
  /\ policy[via[c]] = "translate" /\ MayMove(c)
  /\ \/ cs[c] = "stable" /\ (type = "classic" => IsConvertible)
     \/ cs[c] = "told" /\ Said(c) = {} /\ type = "consumer"
  /\ IsTold(c)
  /\ last' = <<"TellToMove", c>>
  /\ UNCHANGED <<broker, via, policy, proxy, bounds>>

TellToMoveBack(c) ==
  /\ cs[c] \in {"stable", "joined"} /\ Translated(c)
  /\ policy[via[c]] = "observe" /\ MayMove(c)
  /\ IsTold(c)
  /\ last' = <<"TellToMoveBack", c>>
  /\ UNCHANGED <<broker, via, policy, proxy, bounds>>

\* The first heartbeat of a client. If it converts a classic group, the client's classic membership is still there.
JoinAsNew(c) ==
  /\ cs[c] = "out" /\ id[c] = "none" /\ New(c) \notin mem
  /\ type = "consumer" => Classic(c) \notin mem
  /\ policy[via[c]] = "translate"
  /\ IsConvertible
  /\ JoinConsumerGroup(New(c), {}, {})
  /\ cs' = TLCEval([d \in Clients |-> IF d = c THEN "joined" ELSE IF cs[d] = "waiting" THEN "told" ELSE cs[d]])
  /\ id' = [id EXCEPT ![c] = "new"]
  /\ gen' = [gen EXCEPT ![c] = mEpoch'[New(c)]]
  /\ ps' = [ps EXCEPT ![c] = "Completing"]
  /\ known' = [known EXCEPT ![c] = assigned'[New(c)]]
  /\ synced' = [synced EXCEPT ![c] = {}]
  /\ possibly' = [possibly EXCEPT ![c] = {}]
  /\ pending' = [pending EXCEPT ![c] = {}]
  /\ lost' = [lost EXCEPT ![c] = FALSE]
  /\ last' = <<"JoinAsNew", c>>
  /\ UNCHANGED <<own, via, policy, bounds>>

\* Its classic membership ends after that.
EndClassicMembership(c) ==
  /\ id[c] = "new" /\ cs[c] # "out" /\ Classic(c) \in mem /\ New(c) \in mem
  /\ Leave(Classic(c))
  /\ last' = <<"EndClassicMembership", c>>
  /\ UNCHANGED <<client, policy, proxy, bounds>>

\* Whether the last member of the new protocol has to wait until all others have what they are to have.
OthersHaveToGiveUp(c) ==
  /\ \A m \in mem \ {New(c)}: ~IsNew(m)
  /\ \E m \in mem \ {New(c)}: mEpoch[m] < tEpoch

\* The JoinGroup of a client that goes back: its membership of the new protocol ends, then it is relayed.
EndNewMembership(c) ==
  /\ cs[c] = "out" /\ id[c] = "none" /\ New(c) \in mem /\ policy[via[c]] = "observe"
  /\ ~OthersHaveToGiveUp(c) \/ Mutation = "the last member does not wait"
  /\ Leave(New(c))
  /\ Forgets(c)
  /\ last' = <<"EndNewMembership", c>>
  /\ UNCHANGED <<client, policy, bounds>>

\* A JoinGroup that finds another membership of its client: the policy has changed again since the client was told, or
\* the group is a consumer group already, or is not to be converted yet. That membership ends first.
EndLeftoverMembership(c) ==
  /\ cs[c] = "out" /\ id[c] = "none"
  /\ \/ /\ New(c) \in mem /\ policy[via[c]] = "translate"
        /\ ~OthersHaveToGiveUp(c)
        /\ Leave(New(c)) /\ Forgets(c)
     \/ /\ Classic(c) \in mem /\ New(c) \notin mem
        /\ policy[via[c]] = "observe" \/ type = "consumer" \/ ~IsConvertible
        /\ Leave(Classic(c)) /\ UNCHANGED proxy
  /\ last' = <<"EndLeftoverMembership", c>>
  /\ UNCHANGED <<client, policy, bounds>>

-----------------------------------------------------------------------------
(* Clients of the classic protocol, translated *)

\* Whether another proxy may have served a client, and got a response that is unknown here.
IsSoleProxy == Cardinality(Proxies) = 1

\* A Heartbeat: one to the broker, without a list unless a response was lost, or may have gone to another proxy, or the
\* broker waits for what the client never had.
ListOfHeartbeat(c) ==
  CASE Mutation = "a heartbeat has an empty list" -> {}
    [] Mutation = "a heartbeat reports the assignment" -> known[c]
    [] OTHER -> IF lost[c] \/ ~IsSoleProxy \/ ~(pending[c] \subseteq possibly[c]) THEN possibly[c] ELSE NoList

\* What the proxy learns from the response to a heartbeat with this list. The response has the assignment if the request
\* had a list, or if it has changed.
Learns(c, list) ==
  LET now == IF list # NoList \/ assigned'[New(c)] # assigned[New(c)] THEN assigned'[New(c)] ELSE known[c]
      withdrawn == pending[c] \cup (known[c] \ now)
      released == IF list = NoList THEN {} ELSE withdrawn \ list
  IN /\ known' = [known EXCEPT ![c] = now]
     /\ pending' = [pending EXCEPT ![c] = (withdrawn \ released) \ now]
     /\ lost' = [lost EXCEPT ![c] = FALSE]

\* Whether a client that is Stable has to rejoin, after its proxy has learned something.
HasOtherPartitions(c) == known'[c] # synced[c] \/ pending'[c] \cap possibly[c] # {}

HeartbeatAsNew(c) ==
  /\ Translated(c) /\ cs[c] \in {"stable", "joined"}
  /\ Beat(New(c), ListOfHeartbeat(c))
  /\ Learns(c, ListOfHeartbeat(c))
  /\ LET told == cs[c] = "stable" /\ (ps[c] = "Prepare" \/ HasOtherPartitions(c)) IN
     /\ cs' = IF told THEN [cs EXCEPT ![c] = "told"] ELSE cs
     /\ ps' = IF told THEN [ps EXCEPT ![c] = "Prepare"] ELSE ps
  /\ last' = <<"HeartbeatAsNew", c>>
  /\ UNCHANGED <<id, gen, own, via, policy, synced, possibly, bounds>>

\* A heartbeat of the proxy's own accord: to keep a session alive, or because the group has changed. Its client hears of
\* it at its next Heartbeat. It has no list, so there is none while the proxy does not know what the broker answered last.
KeepAlive(c) ==
  /\ New(c) \in mem /\ ps[c] # "Absent" /\ ~lost[c]
  /\ Beat(New(c), NoList)
  /\ Learns(c, NoList)
  /\ ps' = IF ps[c] = "Stable" /\ HasOtherPartitions(c) THEN [ps EXCEPT ![c] = "Prepare"] ELSE ps
  /\ last' = <<"KeepAlive", c>>
  /\ UNCHANGED <<client, policy, synced, possibly, bounds>>

\* The broker's response to a heartbeat is lost, and the connection with it: the client comes back on another one. With
\* several proxies it could have been elsewhere meanwhile, so it is adopted anew.
LoseResponse(c) ==
  /\ faults < MaxFaults
  /\ Translated(c) /\ cs[c] = "stable"
  /\ Beat(New(c), ListOfHeartbeat(c))
  /\ IF IsSoleProxy THEN lost' = [lost EXCEPT ![c] = TRUE] /\ UNCHANGED <<ps, known, synced, possibly, pending>>
     ELSE Forgets(c)
  /\ faults' = faults + 1
  /\ last' = <<"LoseResponse", c>>
  /\ UNCHANGED <<client, policy, changes>>

\* A JoinGroup of a client that was told to rejoin: its own list goes to the broker.
RejoinAsNew(c) ==
  LET list == CASE Mutation = "a JoinGroup reports the assignment" -> assigned[New(c)]
                [] Mutation = "a JoinGroup reports nothing" -> {}
                [] OTHER -> Said(c)
  IN
  /\ Translated(c) /\ cs[c] = "told"
  /\ Beat(New(c), list)
  /\ Learns(c, list)
  /\ own' = StopsBeforeJoin(c)
  /\ possibly' = [possibly EXCEPT ![c] = Said(c)]
  /\ gen' = [gen EXCEPT ![c] = mEpoch'[New(c)]]
  /\ cs' = [cs EXCEPT ![c] = "joined"]
  /\ ps' = [ps EXCEPT ![c] = "Completing"]
  /\ last' = <<"RejoinAsNew", c>>
  /\ UNCHANGED <<id, via, policy, synced, bounds>>

\* A SyncGroup is answered from what is known. A cooperative client that loses something joins once more without it.
SyncAsNew(c) ==
  LET gets == IF Mutation = "SyncGroup gives the target" THEN target[New(c)] ELSE known[c]
      again == ~(own[c] \subseteq gets)
  IN
  /\ Translated(c) /\ cs[c] = "joined" /\ ps[c] = "Completing"
  /\ own' = [own EXCEPT ![c] = gets]
  /\ synced' = [synced EXCEPT ![c] = gets]
  /\ possibly' = [possibly EXCEPT ![c] =
       IF Mutation = "what the client had is forgotten at SyncGroup" THEN {} ELSE @ \cup gets]
  /\ cs' = [cs EXCEPT ![c] = IF again THEN "told" ELSE "stable"]
  /\ ps' = [ps EXCEPT ![c] = IF again THEN "Prepare" ELSE "Stable"]
  /\ last' = <<"SyncAsNew", c>>
  /\ UNCHANGED <<broker, id, gen, via, policy, known, pending, lost, bounds>>

-----------------------------------------------------------------------------
(* Faults and what follows *)

\* A client's connection ends, and it goes on at the other proxy, which knows nothing of it. One that was told to join
\* anew does so where it was told: elsewhere it would be a newcomer, and what it left behind would end with its session. So
\* would the classic membership of one that goes while its JoinGroup moves it.
Reconnect(c) ==
  /\ faults < MaxFaults /\ cs[c] # "dead" /\ cs[c] # "waiting"
  /\ cs[c] = "out" => Mine(c) = {}
  /\ Cardinality(Mine(c)) < 2
  /\ \E p \in Proxies \ {via[c]}: via' = [via EXCEPT ![c] = p]
  /\ Forgets(c)
  /\ faults' = faults + 1
  /\ last' = <<"Reconnect", c>>
  /\ UNCHANGED <<broker, cs, id, gen, own, policy, changes>>

\* A call of a translated member that this proxy does not know: it adopts the member, and tells the client to rejoin. The
\* call goes on as a heartbeat without a list.
IsAdopted(c) ==
  /\ id[c] = "new" /\ New(c) \in mem /\ ps[c] = "Absent" /\ cs[c] \in {"stable", "joined", "told"}
  /\ IF Mutation = "an adopted member goes on without a rejoin"
     THEN ps' = [ps EXCEPT ![c] = "Completing"] /\ cs' = [cs EXCEPT ![c] = "joined"]
     ELSE ps' = [ps EXCEPT ![c] = "Prepare"] /\ cs' = [cs EXCEPT ![c] = "told"]
  /\ UNCHANGED <<id, gen, own, via, policy, synced, possibly, bounds>>

Adopt(c) ==
  /\ IsAdopted(c)
  /\ Beat(New(c), NoList)
  /\ Learns(c, NoList)
  /\ last' = <<"Adopt", c>>

\* The same for a client that was here before it was elsewhere: the broker is only asked whether it has the member.
AdoptAgain(c) ==
  /\ IsAdopted(c)
  /\ last' = <<"AdoptAgain", c>>
  /\ UNCHANGED <<broker, known, pending, lost>>

\* A proxy whose client went on elsewhere ends its membership: the member log forbids it.
EndAtTheFormerProxy(c) ==
  /\ Mutation = "a former proxy ends the membership"
  /\ faults > 0 /\ id[c] = "new" /\ New(c) \in mem /\ cs[c] # "dead"
  /\ Leave(New(c))
  /\ last' = <<"EndAtTheFormerProxy", c>>
  /\ UNCHANGED <<client, policy, proxy, bounds>>

\* The broker does not know the client's member id any more: the client begins anew.
IsFenced(c) ==
  /\ id[c] # "none" /\ cs[c] \notin {"dead", "waiting"}
  /\ <<c, id[c]>> \notin mem
  /\ IsTold(c)
  /\ Forgets(c)
  /\ last' = <<"IsFenced", c>>
  /\ UNCHANGED <<broker, via, policy, bounds>>

Die(c) ==
  /\ faults < MaxFaults /\ cs[c] # "dead"
  /\ cs' = [cs EXCEPT ![c] = "dead"]
  /\ id' = [id EXCEPT ![c] = "none"]
  /\ own' = [own EXCEPT ![c] = {}]
  /\ Forgets(c)
  /\ faults' = faults + 1
  /\ last' = <<"Die", c>>
  /\ UNCHANGED <<broker, gen, via, policy, changes>>

ExpireSession(c) ==
  /\ cs[c] = "dead"
  /\ \E m \in Mine(c) \ waiting: Leave(m)  \* a member whose JoinGroup waits is alive for the broker
  /\ last' = <<"ExpireSession", c>>
  /\ UNCHANGED <<client, policy, proxy, bounds>>

StartAgain(c) ==
  /\ cs[c] = "dead"
  /\ Mine(c) = {}
  /\ cs' = [cs EXCEPT ![c] = "out"]
  /\ last' = <<"StartAgain", c>>
  /\ UNCHANGED <<broker, id, gen, own, via, policy, proxy, bounds>>

ChangePolicy(p) ==
  /\ changes < MaxChanges
  /\ policy' = [policy EXCEPT ![p] = IF @ = "observe" THEN "translate" ELSE "observe"]
  /\ changes' = changes + 1
  /\ last' = <<"ChangePolicy", p>>
  /\ UNCHANGED <<broker, client, proxy, faults>>

-----------------------------------------------------------------------------

Init ==
  /\ type = "empty" /\ phase = "Stable" /\ epoch = 0 /\ mem = {} /\ waiting = {}
  /\ mEpoch = TLCEval([m \in Members |-> 0])
  /\ target = TLCEval([m \in Members |-> {}]) /\ tEpoch = 0
  /\ assigned = TLCEval([m \in Members |-> {}])
  /\ revoking = TLCEval([m \in Members |-> {}])
  /\ claims = TLCEval([m \in Members |-> {}])
  /\ cs = TLCEval([c \in Clients |-> "out"])
  /\ id = TLCEval([c \in Clients |-> "none"])
  /\ gen = TLCEval([c \in Clients |-> 0])
  /\ own = TLCEval([c \in Clients |-> {}])
  /\ via \in [Clients -> Proxies]
  /\ policy = TLCEval([p \in Proxies |-> "observe"])
  /\ ps = TLCEval([c \in Clients |-> "Absent"])
  /\ known = TLCEval([c \in Clients |-> {}])
  /\ synced = TLCEval([c \in Clients |-> {}])
  /\ possibly = TLCEval([c \in Clients |-> {}])
  /\ pending = TLCEval([c \in Clients |-> {}])
  /\ lost = TLCEval([c \in Clients |-> FALSE])
  /\ changes = 0 /\ faults = 0
  /\ last = <<"Init">>

Relayed(c) == JoinClassicGroup(c) \/ JoinAsClassic(c) \/ SyncAsClassic(c) \/ HeartbeatAsClassic(c)
Moves(c) == \/ TellToMove(c) \/ TellToMoveBack(c) \/ JoinAsNew(c) \/ EndClassicMembership(c)
            \/ EndNewMembership(c) \/ EndLeftoverMembership(c)
IsTranslated(c) == HeartbeatAsNew(c) \/ KeepAlive(c) \/ RejoinAsNew(c) \/ SyncAsNew(c) \/ Adopt(c)
                   \/ AdoptAgain(c)
Ends(c) == IsFenced(c) \/ ExpireSession(c) \/ StartAgain(c) \/ EndAtTheFormerProxy(c)
Faults(c) == Die(c) \/ Reconnect(c) \/ LoseResponse(c)

Protocol == CompleteClassicRebalance \/ \E c \in Clients: Relayed(c) \/ Moves(c) \/ IsTranslated(c) \/ Ends(c)
Environment == (\E c \in Clients: Faults(c)) \/ \E p \in Proxies: ChangePolicy(p)

Next == epoch < MaxEpoch /\ (Protocol \/ Environment)
Spec == Init /\ [][Next]_vars

\* Which client, which partition and which proxy makes no difference.
Symmetry == Permutations(Clients) \cup Permutations(Partitions) \cup Permutations(Proxies)

-----------------------------------------------------------------------------
(* What has to hold *)

TypeOK ==
  /\ type \in {"empty", "classic", "consumer"} /\ phase \in {"Stable", "Preparing"}
  /\ mem \subseteq Members /\ waiting \subseteq mem
  /\ cs \in [Clients -> {"out", "waiting", "joined", "stable", "told", "dead"}]
  /\ id \in [Clients -> {"none", "classic", "new"}]
  /\ own \in [Clients -> SUBSET Partitions]
  /\ ps \in [Clients -> {"Absent", "Prepare", "Completing", "Stable"}]

\* Invariant 1: no partition is in two clients' hands.
Exclusive == \A c, d \in Clients: c # d => own[c] \cap own[d] = {}

\* What nobody but c may be given.
Kept(c) == UNION {assigned[m] \cup revoking[m]: m \in Mine(c)}

\* Invariant 2: in a consumer group the broker keeps what a client works on until the client has given it up.
Held == type = "consumer" => \A c \in Clients: own[c] \subseteq Kept(c)

\* The broker's own promise.
OneAssignee ==
  type = "consumer" =>
    \A m, n \in mem: m # n => (assigned[m] \cup revoking[m]) \cap (assigned[n] \cup revoking[n]) = {}

\* The proxy never believes that a client has less than it has.
KnownToTheProxy == \A c \in Clients: ps[c] \in {"Completing", "Stable"} => own[c] \subseteq possibly[c] \cup known[c]

\* Invariant 3, of which a commit makes use: a client's generation is one that its membership has had.
Generations == \A c \in Clients: id[c] # "none" /\ <<c, id[c]>> \in mem => gen[c] <= mEpoch[<<c, id[c]>>]

\* Invariant 4: where the protocol has nothing more to do, all is as the broker wants it.
Converged ==
  (epoch < MaxEpoch /\ ~ENABLED (Protocol /\ view' # view)) =>
    \A c \in Clients:
      /\ cs[c] \in {"stable", "dead"}
      /\ cs[c] = "stable" => own[c] = assigned[<<c, id[c]>>] /\ (type = "consumer" => own[c] = target[<<c, id[c]>>])

\* What is kept for a client, as Ownership.tla means it. A classic group keeps what its last rebalance gave, and while
\* it waits for JoinGroups what its clients have not given up.
KeptFor(c) ==
  IF type = "consumer" THEN Kept(c)
  ELSE own[c] \cup (IF phase = "Stable" THEN Kept(c) ELSE {})

Abstract == INSTANCE Ownership WITH kept <- [c \in Clients |-> KeptFor(c)]
Refines == Abstract!Spec

=============================================================================
