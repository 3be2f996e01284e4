----------------------------- MODULE Translation -----------------------------
(***************************************************************************)
(* A consumer group that Epochgate moves to the new protocol and back: its *)
(* clients, which speak the classic protocol; two proxies, which relay or  *)
(* translate what they say; and the broker. A live group is converted by a *)
(* helper, a member without topics; each member is converted in place, by  *)
(* a heartbeat with its generation as epoch and its whole owned list, and  *)
(* goes back by its JoinGroup; the helper leaves last, both ways.          *)
(*                                                                         *)
(* Checked by TLC: no partition has two owners (Exclusive), a revocation   *)
(* is acknowledged only after proof (Held), a healthy client never loses   *)
(* its membership or its generation (Alive, NotIllegal, NotTimed), its     *)
(* commits are taken (Committed), and where nothing can happen any more    *)
(* every partition has an owner, every client has what the broker assigns  *)
(* to it, and the group is what the policies say (Converged).              *)
(*                                                                         *)
(* What is simplified: one topic; a request and the broker's work on it    *)
(* are one step, but a response may be lost; an assignor is any total      *)
(* assignment, newly chosen whenever the group epoch moves, so votes for   *)
(* an assignor are not here; time passes only by sessions of dead clients  *)
(* that expire. A client that outlives its own timeouts is outside of its  *)
(* contract, and not here. Nor does a member of the new protocol come to a *)
(* proxy that does not know it and whose policy says observe: it would be  *)
(* refused there.                                                          *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
  Clients, Helper, Partitions, Proxies,
  Cooperative,  \* the clients' rebalance protocol: TRUE for cooperative, FALSE for eager
  MaxEpoch,     \* the group epoch that ends an exploration
  MaxChanges,   \* how often the policy changes at a proxy
  MaxFaults,    \* clients that die, connections that move to the other proxy, responses that are lost, calls that cross
  Mutation      \* "none", or a rule of the proxies that is left out, to show that an invariant needs it

VARIABLES
  (* The broker *)
  type,      \* "empty", "classic" or "consumer"
  phase,     \* of a classic group: "Stable", or "Preparing" while it waits for JoinGroups
  epoch,     \* the group epoch; a classic group's generation
  mem,       \* the members: clients, and the helper
  new,       \* those of the new protocol
  mEpoch,    \* the member epoch of each; of a classic one its generation
  target,    \* the target assignment
  tEpoch,    \* its epoch: the group epoch it was computed for; 0 in a classic group
  assigned,  \* what a member is assigned now
  revoking,  \* what it was assigned before and has not given up yet
  claims,    \* what the last JoinGroup of a classic member said it owned
  waiting,   \* the classic members whose JoinGroup waits for the others
  timed,     \* the members for whose JoinGroup a consumer group has started a timer
  (* The clients *)
  cs,        \* "out", "waiting", "joined", "stable", "told" or "dead"
  gen,       \* the client's generation
  own,       \* the partitions it works on
  via,       \* the proxy it is connected to
  commits,   \* the clients with a classic commit under way on another connection
  (* The proxies *)
  policy,    \* policy[p]: "observe" or "translate"
  ps,        \* the state of a client's translated membership at the proxy that serves it
  known,     \* broker_assignment: what the broker's last response assigned
  synced,    \* synced_assignment: what the last SyncGroup gave to the client
  possibly,  \* possibly_owned: what the client may be working on
  pending,   \* pending_revocation: what the broker withdrew, and no list that it got has given up
  lost,      \* whether the broker's last response was lost
  records,   \* records[c][p]: what p knows of a classic member: its list, or one of the three below
  heard,     \* <<c, p>>: a JoinGroup timer may run for c, as p knows
  helperAt,  \* the proxy whose member the helper is
  standsIn,  \* whether it took the place of the last other member of the new protocol, so that it leaves as on the way back
  (* How much has happened *)
  changes, faults, deaths,
  last       \* the last step, for the replay of a history; no part of the state

broker == <<type, phase, epoch, mem, new, mEpoch, target, tEpoch, assigned, revoking, claims, waiting, timed>>
client == <<cs, gen, own, via, commits>>
member == <<ps, known, synced, possibly, pending, lost>>
helping == <<helperAt, standsIn>>
proxy  == <<member, records, heard, helping>>
bounds == <<changes, faults, deaths>>
vars   == <<broker, client, policy, proxy, bounds, last>>
view   == <<broker, client, policy, proxy, bounds>>

Members == Clients \cup {Helper}
NoList == {"null"}        \* a heartbeat whose list of owned partitions is null: it acknowledges nothing
NoRecord == {"none"}      \* no JoinGroup of the client has passed through this proxy
Stale == {"stale"}        \* it has, but the client has joined elsewhere since
Unsettled == {"unsettled"} \* it has, and its SyncGroup has not been answered here

IsNew(m) == m \in new
Classics == mem \ new
Translates(c) == policy[via[c]] = "translate"

-----------------------------------------------------------------------------
(* The broker *)

\* Every assignment of all partitions to these members; nothing if there are none. The helper has no topics.
Assignments(members) ==
  LET readers == members \ {Helper} IN
  IF readers = {} THEN {TLCEval([m \in Members |-> {}])}
  ELSE {TLCEval([m \in Members |-> {p \in Partitions: f[p] = m}]): f \in [Partitions -> readers]}

\* What a heartbeat with this owned list makes of a member (Kafka's CurrentAssignmentBuilder).
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
Beats(m, list) ==
  /\ \E goal \in IF tEpoch < epoch THEN Assignments(mem) ELSE {target}:
       /\ target' = goal
       /\ Heartbeat(m, list, mem \cup {m}, goal, epoch, assigned, revoking, mEpoch)
  /\ tEpoch' = epoch
  /\ UNCHANGED <<type, phase, epoch, waiting>>

Beat(m, list) == Beats(m, list) /\ UNCHANGED <<mem, new, claims, timed>>

\* A JoinGroup of a classic member, or of one that becomes a classic one by it; it ends the timer.
BeatAsClassic(c, list, said) ==
  /\ Beats(c, list)
  /\ new' = new \ {c}
  /\ claims' = [claims EXCEPT ![c] = said]
  /\ timed' = timed \ {c}
  /\ UNCHANGED mem

\* A client joins a consumer group, or a group that it converts: the group epoch moves.
JoinConsumerGroup(m, protocol, said) ==
  /\ type' = "consumer"
  /\ phase' = "Stable"
  /\ waiting' = {}
  /\ epoch' = epoch + 1 /\ tEpoch' = epoch + 1
  /\ mem' = mem \cup {m}
  /\ new' = IF protocol = "new" THEN new \cup {m} ELSE new
  /\ claims' = [claims EXCEPT ![m] = said]
  /\ \E goal \in Assignments(mem \cup {m}):
       /\ target' = goal
       /\ Heartbeat(m, said, mem \cup {m}, goal, epoch + 1, assigned, revoking, mEpoch)
  /\ UNCHANGED timed

\* A membership ends. A consumer group keeps its target assignment for the others until the next heartbeat. If no other
\* member of the new protocol is left, it becomes a classic group: the broker takes for owned what was the target, and
\* waits for everybody's JoinGroup; the generation moves when all have joined. Timers go on.
Leave(m) ==
  LET rest == mem \ {m}
      without(f) == [f EXCEPT ![m] = {}]
  IN /\ mem' = rest
     /\ new' = new \ {m}
     /\ mEpoch' = [mEpoch EXCEPT ![m] = 0]
     /\ waiting' = waiting \ {m}
     /\ timed' = timed \ {m}
     /\ claims' = without(claims)
     /\ target' = without(target)
     /\ IF rest = {} THEN
          /\ type' = "empty" /\ phase' = "Stable" /\ epoch' = epoch + 1 /\ tEpoch' = epoch + 1
          /\ assigned' = without(assigned) /\ revoking' = without(revoking)
        ELSE IF type = "classic" \/ rest \cap new = {} THEN
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

\* What the proxy forgets of a client that it does not translate, or not any more.
Forgets(c) ==
  /\ ps' = [ps EXCEPT ![c] = "Absent"]
  /\ known' = [known EXCEPT ![c] = {}]
  /\ synced' = [synced EXCEPT ![c] = {}]
  /\ possibly' = [possibly EXCEPT ![c] = {}]
  /\ pending' = [pending EXCEPT ![c] = {}]
  /\ lost' = [lost EXCEPT ![c] = FALSE]

\* No proxy has a record of a client.
NoRecords(c) ==
  /\ records' = [records EXCEPT ![c] = TLCEval([p \in Proxies |-> NoRecord])]
  /\ heard' = {one \in heard: one[1] # c}

\* Its JoinGroup is relayed: what it has is known after its SyncGroup. A record elsewhere holds while its generation does.
Records(c, keeps) ==
  /\ records' = [records EXCEPT ![c] = TLCEval([p \in Proxies |->
       IF p = via[c] THEN Unsettled
       ELSE IF keeps \/ records[c][p] = NoRecord THEN records[c][p] ELSE Stale])]
  /\ UNCHANGED heard

\* A JoinGroup that is relayed: of a classic member, or the policy says so.
IsRelayed(c) ==
  \/ cs[c] = "told" /\ c \in Classics
  \/ cs[c] = "out" /\ ~Translates(c)

\* A JoinGroup that reaches a classic group, or one without members, waits for those of the others.
JoinClassicGroup(c) ==
  /\ IsRelayed(c) /\ type # "consumer"
  /\ type' = "classic" /\ phase' = "Preparing" /\ tEpoch' = 0
  /\ mem' = mem \cup {c}
  /\ waiting' = waiting \cup {c}
  /\ claims' = [claims EXCEPT ![c] = Said(c)]
  /\ cs' = [cs EXCEPT ![c] = "waiting"]
  /\ own' = StopsBeforeJoin(c)
  /\ gen' = [gen EXCEPT ![c] = 0]
  /\ Records(c, FALSE)
  /\ last' = <<"JoinClassicGroup", c>>
  /\ UNCHANGED <<epoch, new, mEpoch, target, assigned, revoking, timed, via, commits, policy, member, helping, bounds>>

\* Whether no other proxy may have served a client, and got a response that is unknown here.
IsSoleProxy == Cardinality(Proxies) = 1

\* All have joined. A consumer group may have started the timer of a JoinGroup at another proxy, so each proxy takes it
\* for running. The leader's assignor gives to nobody else what a cooperative member has said it owns.
CompleteClassicRebalance ==
  /\ type = "classic" /\ phase = "Preparing" /\ waiting = mem
  /\ phase' = "Stable" /\ epoch' = epoch + 1 /\ waiting' = {}
  /\ mEpoch' = TLCEval([m \in Members |-> IF m \in mem THEN epoch + 1 ELSE 0])
  /\ \E goal \in Assignments(mem):
       LET free(m) == {p \in goal[m]: \A n \in mem \ {m}: p \notin claims[n]}
           given == TLCEval([m \in Members |-> IF m \in mem THEN free(m) ELSE {}])
       IN assigned' = given /\ target' = given
  /\ cs' = TLCEval([c \in Clients |-> IF c \in mem /\ cs[c] = "waiting" THEN "joined" ELSE cs[c]])
  /\ gen' = TLCEval([c \in Clients |-> IF c \in mem /\ cs[c] = "waiting" THEN epoch + 1 ELSE gen[c]])
  /\ heard' = IF IsSoleProxy \/ Mutation = "a proxy knows of the timers of others" THEN heard
              ELSE heard \cup {<<c, via[c]>>: c \in {one \in Clients: one \in mem /\ cs[one] = "waiting"}}
  /\ last' = <<"CompleteClassicRebalance">>
  /\ UNCHANGED <<type, mem, new, tEpoch, revoking, claims, timed, own, via, commits, policy, member, records, helping>>
  /\ UNCHANGED bounds

\* A classic client joins a consumer group: the broker answers at once.
JoinAsClassic(c) ==
  /\ IsRelayed(c) /\ type = "consumer"
  /\ IF c \in mem THEN BeatAsClassic(c, Said(c), Said(c)) ELSE JoinConsumerGroup(c, "classic", Said(c))
  /\ cs' = [cs EXCEPT ![c] = "joined"]
  /\ gen' = [gen EXCEPT ![c] = mEpoch'[c]]
  /\ own' = StopsBeforeJoin(c)
  /\ Records(c, mEpoch'[c] = gen[c])
  /\ last' = <<"JoinAsClassic", c>>
  /\ UNCHANGED <<via, commits, policy, member, helping, bounds>>

\* Whether the broker answers a classic member REBALANCE_IN_PROGRESS.
HasToRejoin(m) ==
  IF type = "classic" THEN phase = "Preparing"
  ELSE \/ mEpoch[m] < tEpoch \/ revoking[m] # {}
       \/ LET lacks == target[m] \ assigned[m]
              taken == UNION {assigned[n] \cup revoking[n]: n \in mem \ {m}}
          IN lacks # {} /\ lacks \cap taken = {}

\* It does so: a consumer group starts the timer of a JoinGroup, and the proxy remembers it.
IsToldToRejoin(c) ==
  /\ cs' = [cs EXCEPT ![c] = "told"]
  /\ timed' = IF type = "consumer" THEN timed \cup {c} ELSE timed
  /\ heard' = IF records[c][via[c]] = NoRecord \/ Mutation = "a rebalance that the broker announces is not remembered"
              THEN heard ELSE heard \cup {<<c, via[c]>>}
  /\ UNCHANGED <<own, gen>>

\* A classic group that was a consumer group refuses the generation of a member that was behind the group epoch: such a
\* client loses its partitions, keeps its member id and joins again.
IsOfAnOlderGeneration(c) == type = "classic" /\ gen[c] # epoch
LosesPartitions(c) ==
  /\ own' = [own EXCEPT ![c] = {}]
  /\ gen' = [gen EXCEPT ![c] = 0]
  /\ cs' = [cs EXCEPT ![c] = "told"]
  /\ UNCHANGED <<timed, heard>>

SyncAsClassic(c) ==
  /\ cs[c] = "joined" /\ c \in Classics
  /\ IF IsOfAnOlderGeneration(c) THEN LosesPartitions(c) /\ UNCHANGED records
     ELSE IF IF type = "classic" THEN phase = "Preparing" ELSE mEpoch[c] < tEpoch /\ revoking[c] = {}
     THEN IsToldToRejoin(c) /\ UNCHANGED records
     ELSE /\ own' = [own EXCEPT ![c] = assigned[c]]
          /\ cs' = [cs EXCEPT ![c] = IF own[c] \subseteq assigned[c] THEN "stable" ELSE "told"]
          /\ records' = IF records[c][via[c]] \in {NoRecord, Stale} THEN records
                        ELSE [records EXCEPT ![c][via[c]] = assigned[c]]
          /\ UNCHANGED <<gen, timed, heard>>
  /\ last' = <<"SyncAsClassic", c>>
  /\ UNCHANGED <<type, phase, epoch, mem, new, mEpoch, target, tEpoch, assigned, revoking, claims, waiting>>
  /\ UNCHANGED <<via, commits, policy, member, helping, bounds>>

HeartbeatAsClassic(c) ==
  /\ cs[c] = "stable" /\ c \in Classics
  /\ IF IsOfAnOlderGeneration(c) THEN LosesPartitions(c) ELSE HasToRejoin(c) /\ IsToldToRejoin(c)
  /\ last' = <<"HeartbeatAsClassic", c>>
  /\ UNCHANGED <<type, phase, epoch, mem, new, mEpoch, target, tEpoch, assigned, revoking, claims, waiting>>
  /\ UNCHANGED <<via, commits, policy, member, records, helping, bounds>>

\* A commit on a connection of its own. A member of the new protocol is refused one of a classic client.
BeginCommit(c) ==
  /\ faults + deaths < MaxFaults /\ cs[c] = "stable" /\ c \in Classics
  /\ commits' = commits \cup {c}
  /\ faults' = faults + 1
  /\ last' = <<"BeginCommit", c>>
  /\ UNCHANGED <<broker, cs, gen, own, via, policy, proxy, changes, deaths>>

EndCommit(c) ==
  /\ c \in commits
  /\ commits' = commits \ {c}
  /\ last' = <<"EndCommit", c>>
  /\ UNCHANGED <<broker, cs, gen, own, via, policy, proxy, bounds>>

-----------------------------------------------------------------------------
(* Into the new protocol, in place *)

\* Whether the broker takes each classic member's assignment rightly for what the member owns.
IsConvertible ==
  \/ type # "classic"
  \/ /\ phase = "Stable"
     /\ \/ \A m \in mem: claims[m] \subseteq assigned[m]
        \/ Mutation = "converts while partitions are given up"

\* It was so when the broker was asked, and somebody has left or joined since.
WasConvertible ==
  /\ type = "classic" /\ phase = "Preparing"
  /\ \A m \in mem:
       /\ claims[m] \cup own[m] \subseteq assigned[m]
       /\ m \in waiting \/ (gen[m] = epoch /\ (cs[m] \in {"stable", "told"} => own[m] = assigned[m]))

\* Whether the broker accepts the Heartbeat of a classic member, and its proxy translates.
MayConvert(c) == cs[c] = "stable" /\ c \in Classics /\ Translates(c)
HasRecord(c) == records[c][via[c]] \notin {NoRecord, Stale, Unsettled}

\* After a Heartbeat of a member the helper of its proxy joins: the broker converts the group. Each member's generation
\* is its epoch. If a partition has no owner then, or a member nothing and another two, the group epoch moves at once,
\* by another helper that takes the place of the first.
HelperConverts(c) ==
  LET mends == \/ UNION {assigned[m]: m \in mem} # Partitions
               \/ \E m, n \in mem: assigned[m] = {} /\ Cardinality(assigned[n]) > 1
  IN
  /\ MayConvert(c) /\ HasRecord(c) /\ type = "classic" /\ gen[c] = epoch
  /\ \/ IsConvertible /\ UNCHANGED faults
     \/ WasConvertible /\ faults + deaths < MaxFaults /\ faults' = faults + 1
  /\ type' = "consumer" /\ phase' = "Stable" /\ waiting' = {}
  /\ mem' = mem \cup {Helper} /\ new' = {Helper} /\ helperAt' = via[c] /\ standsIn' = FALSE
  /\ epoch' = IF mends /\ Mutation # "a partition without an owner stays so" THEN epoch + 1 ELSE epoch
  /\ tEpoch' = epoch
  /\ mEpoch' = TLCEval([m \in Members |-> IF m \in mem \cup {Helper} THEN epoch ELSE 0])
  /\ target' = assigned
  /\ cs' = TLCEval([d \in Clients |-> IF cs[d] = "waiting" THEN "told" ELSE cs[d]])
  /\ last' = <<"HelperConverts", c>>
  /\ UNCHANGED <<assigned, revoking, claims, timed, gen, own, via, commits, policy, member, records, heard, changes, deaths>>

\* What the broker makes of a member's full heartbeat with its generation as epoch. A JoinGroup and a SyncGroup come
\* first if a timer may run: they end it.
BecomesNew(c, list) ==
  /\ Beats(c, list)
  /\ new' = new \cup {c}
  /\ timed' = IF <<c, via[c]>> \in heard THEN timed \ {c} ELSE timed
  /\ UNCHANGED <<mem, claims>>

\* What its proxy makes of the answer. The client is told to rejoin if its partitions are others now.
IsConverted(c, list) ==
  LET now == assigned'[c]
      told == now # list
  IN /\ known' = [known EXCEPT ![c] = now]
     /\ synced' = [synced EXCEPT ![c] = list]
     /\ possibly' = [possibly EXCEPT ![c] = list]
     /\ pending' = [pending EXCEPT ![c] = list \ now]
     /\ lost' = [lost EXCEPT ![c] = FALSE]
     /\ ps' = [ps EXCEPT ![c] = IF told THEN "Prepare" ELSE "Stable"]
     /\ cs' = [cs EXCEPT ![c] = IF told THEN "told" ELSE "stable"]
     /\ records' = [records EXCEPT ![c][via[c]] = NoRecord]
     /\ heard' = heard \ {<<c, via[c]>>}

\* All that has to be certain before that.
IsCertain(c) ==
  /\ MayConvert(c) /\ HasRecord(c) /\ type = "consumer" /\ gen[c] = mEpoch[c]
  /\ ~HasToRejoin(c)
  /\ records[c][via[c]] = assigned[c]
  /\ <<c, via[c]>> \in heard => epoch = gen[c]
  /\ c \notin commits \/ Mutation = "converts while a commit is under way"

ListOfConversion(c) ==
  IF Mutation = "a conversion has no list" THEN {} ELSE records[c][via[c]]

ConvertMember(c) ==
  /\ IsCertain(c)
  /\ BecomesNew(c, ListOfConversion(c))
  /\ IsConverted(c, records[c][via[c]])
  /\ standsIn' = FALSE
  /\ last' = <<"ConvertMember", c>>
  /\ UNCHANGED <<gen, own, via, commits, policy, helperAt, bounds>>

\* The answer is lost, and the connection with it.
LoseConversion(c) ==
  /\ faults + deaths < MaxFaults /\ IsCertain(c)
  /\ BecomesNew(c, ListOfConversion(c))
  /\ heard' = heard \ {<<c, via[c]>>}
  /\ standsIn' = FALSE
  /\ faults' = faults + 1
  /\ last' = <<"LoseConversion", c>>
  /\ UNCHANGED <<client, policy, member, records, helperAt, changes, deaths>>

\* So the call may be repeated by the only proxy. The broker takes the epoch, or the one before with a part of what it
\* has assigned.
MayRepeat(c) ==
  /\ cs[c] = "stable" /\ c \in new /\ ps[c] = "Absent" /\ Translates(c) /\ HasRecord(c)
  /\ IsSoleProxy
  /\ gen[c] = mEpoch[c] \/ records[c][via[c]] \subseteq assigned[c]

RepeatConversion(c) ==
  /\ MayRepeat(c)
  /\ Beat(c, records[c][via[c]])
  /\ IsConverted(c, records[c][via[c]])
  /\ last' = <<"RepeatConversion", c>>
  /\ UNCHANGED <<gen, own, via, commits, policy, helping, bounds>>

\* What a client has is not known here: one ordinary rebalance, by a code that the proxy makes up.
AskToRejoin(c) ==
  /\ MayConvert(c) /\ ~HasRecord(c)
  /\ IF type = "classic" THEN IsConvertible /\ gen[c] = epoch ELSE ~HasToRejoin(c)
  /\ cs' = [cs EXCEPT ![c] = "told"]
  /\ last' = <<"AskToRejoin", c>>
  /\ UNCHANGED <<broker, gen, own, via, commits, policy, proxy, bounds>>

HelperBeats ==
  /\ Helper \in mem /\ mEpoch[Helper] < epoch
  /\ Beat(Helper, NoList)
  /\ last' = <<"HelperBeats">>
  /\ UNCHANGED <<client, policy, proxy, bounds>>

\* When no member is left to be converted; or, on the way back or if it stands in, when all are classic members that have
\* reached the group epoch, which becomes their generation.
HelperMayLeave ==
  /\ Helper \in mem
  /\ IF policy[helperAt] = "translate" /\ ~standsIn THEN Classics = {}
     ELSE /\ new = {Helper}
          /\ \/ \A m \in Classics: mEpoch[m] = epoch
             \/ Mutation = "the helper leaves before all have the group epoch"

HelperLeaves ==
  /\ HelperMayLeave
  /\ Leave(Helper)
  /\ helperAt' = "nobody" /\ standsIn' = FALSE
  /\ last' = <<"HelperLeaves">>
  /\ UNCHANGED <<client, policy, member, records, heard, bounds>>

\* A client that is new to its group joins by a first heartbeat; that converts a classic group.
JoinAsNew(c) ==
  /\ cs[c] = "out" /\ c \notin mem /\ Translates(c)
  /\ IsConvertible
  /\ JoinConsumerGroup(c, "new", {})
  /\ cs' = [cs EXCEPT ![c] = "joined"]
  /\ gen' = [gen EXCEPT ![c] = mEpoch'[c]]
  /\ ps' = [ps EXCEPT ![c] = "Completing"]
  /\ known' = [known EXCEPT ![c] = assigned'[c]]
  /\ synced' = [synced EXCEPT ![c] = {}]
  /\ possibly' = [possibly EXCEPT ![c] = {}]
  /\ pending' = [pending EXCEPT ![c] = {}]
  /\ lost' = [lost EXCEPT ![c] = FALSE]
  /\ standsIn' = FALSE
  /\ last' = <<"JoinAsNew", c>>
  /\ UNCHANGED <<own, via, commits, policy, records, heard, helperAt, bounds>>

-----------------------------------------------------------------------------
(* Back to the classic protocol *)

\* A client whose proxy knows its membership.
Translated(c) == c \in new /\ ps[c] # "Absent"

\* Its Heartbeat has it rejoin, by a code that the proxy makes up.
AskToGoBack(c) ==
  /\ cs[c] = "stable" /\ Translated(c) /\ ~Translates(c)
  /\ cs' = [cs EXCEPT ![c] = "told"]
  /\ last' = <<"AskToGoBack", c>>
  /\ UNCHANGED <<broker, gen, own, via, commits, policy, proxy, bounds>>

\* Whether another member of the new protocol stays, as far as the proxy knows.
HasCompany(c) ==
  \/ Helper \in mem
  \/ \E d \in Clients \ {c}: via[d] = via[c] /\ Translated(d)
  \/ Mutation = "the last one goes back without a helper"

\* Before the last one goes back, a helper keeps the group a consumer group. It moves no epoch.
HelperJoins(c) ==
  /\ cs[c] = "told" /\ Translated(c) /\ ~Translates(c) /\ ~HasCompany(c)
  /\ Beats(Helper, {})
  /\ mem' = mem \cup {Helper} /\ new' = new \cup {Helper} /\ helperAt' = via[c] /\ standsIn' = FALSE
  /\ last' = <<"HelperJoins", c>>
  /\ UNCHANGED <<claims, timed, client, policy, member, records, heard, bounds>>

\* Its JoinGroup is relayed: the member is a classic one.
JoinBack(c) ==
  /\ cs[c] = "told" /\ Translated(c) /\ ~Translates(c) /\ HasCompany(c)
  /\ BeatAsClassic(c, IF Mutation = "the way back names nothing" THEN {} ELSE Said(c), Said(c))
  /\ cs' = [cs EXCEPT ![c] = "joined"]
  /\ gen' = [gen EXCEPT ![c] = mEpoch'[c]]
  /\ own' = StopsBeforeJoin(c)
  /\ Forgets(c)
  /\ Records(c, mEpoch'[c] = gen[c])
  /\ last' = <<"JoinBack", c>>
  /\ UNCHANGED <<via, commits, policy, helping, bounds>>

-----------------------------------------------------------------------------
(* Clients of the classic protocol, translated *)

\* A Heartbeat: one to the broker, without a list unless a response was lost, or may have gone to another proxy, or the
\* broker waits for what the client never had.
ListOfHeartbeat(c) ==
  CASE Mutation = "a heartbeat has an empty list" -> {}
    [] Mutation = "a heartbeat reports the assignment" -> known[c]
    [] OTHER -> IF lost[c] \/ ~IsSoleProxy \/ ~(pending[c] \subseteq possibly[c]) THEN possibly[c] ELSE NoList

\* What the proxy learns from the response to a heartbeat with this list. The response has the assignment if the request
\* had a list, or if it has changed.
Learns(c, list) ==
  LET now == IF list # NoList \/ assigned'[c] # assigned[c] THEN assigned'[c] ELSE known[c]
      withdrawn == pending[c] \cup (known[c] \ now)
      released == IF list = NoList THEN {} ELSE withdrawn \ list
  IN /\ known' = [known EXCEPT ![c] = now]
     /\ pending' = [pending EXCEPT ![c] = (withdrawn \ released) \ now]
     /\ lost' = [lost EXCEPT ![c] = FALSE]

\* Whether a client that is Stable has to rejoin, after its proxy has learned something.
HasOtherPartitions(c) == known'[c] # synced[c] \/ pending'[c] \cap possibly[c] # {}

HeartbeatAsNew(c) ==
  /\ Translated(c) /\ cs[c] \in {"stable", "joined"}
  /\ Beat(c, ListOfHeartbeat(c))
  /\ Learns(c, ListOfHeartbeat(c))
  /\ LET told == cs[c] = "stable" /\ (ps[c] = "Prepare" \/ HasOtherPartitions(c)) IN
     /\ cs' = IF told THEN [cs EXCEPT ![c] = "told"] ELSE cs
     /\ ps' = IF told THEN [ps EXCEPT ![c] = "Prepare"] ELSE ps
  /\ last' = <<"HeartbeatAsNew", c>>
  /\ UNCHANGED <<gen, own, via, commits, policy, synced, possibly, records, heard, helping, bounds>>

\* A heartbeat of the proxy's own accord: to keep a session alive, or because the group has changed. Its client hears of
\* it at its next Heartbeat. It has no list, so there is none while the proxy does not know what the broker answered last.
KeepAlive(c) ==
  /\ Translated(c) /\ ~lost[c]
  /\ Beat(c, NoList)
  /\ Learns(c, NoList)
  /\ ps' = IF ps[c] = "Stable" /\ HasOtherPartitions(c) THEN [ps EXCEPT ![c] = "Prepare"] ELSE ps
  /\ last' = <<"KeepAlive", c>>
  /\ UNCHANGED <<client, policy, synced, possibly, records, heard, helping, bounds>>

\* The broker's response to a heartbeat is lost, and the connection with it: the client comes back on another one. With
\* several proxies it could have been elsewhere meanwhile, so it is adopted anew.
LoseResponse(c) ==
  /\ faults + deaths < MaxFaults
  /\ Translated(c) /\ cs[c] = "stable"
  /\ Beat(c, ListOfHeartbeat(c))
  /\ IF IsSoleProxy THEN lost' = [lost EXCEPT ![c] = TRUE] /\ UNCHANGED <<ps, known, synced, possibly, pending>>
     ELSE Forgets(c)
  /\ faults' = faults + 1
  /\ last' = <<"LoseResponse", c>>
  /\ UNCHANGED <<client, policy, records, heard, helping, changes, deaths>>

\* A JoinGroup of a client that was told to rejoin: its own list goes to the broker.
RejoinAsNew(c) ==
  LET list == CASE Mutation = "a JoinGroup reports the assignment" -> assigned[c]
                [] Mutation = "a JoinGroup reports nothing" -> {}
                [] OTHER -> Said(c)
  IN
  /\ Translated(c) /\ cs[c] = "told" /\ Translates(c)
  /\ Beat(c, list)
  /\ Learns(c, list)
  /\ own' = StopsBeforeJoin(c)
  /\ possibly' = [possibly EXCEPT ![c] = Said(c)]
  /\ gen' = [gen EXCEPT ![c] = mEpoch'[c]]
  /\ cs' = [cs EXCEPT ![c] = "joined"]
  /\ ps' = [ps EXCEPT ![c] = "Completing"]
  /\ last' = <<"RejoinAsNew", c>>
  /\ UNCHANGED <<via, commits, policy, synced, records, heard, helping, bounds>>

\* A SyncGroup is answered from what is known, after a heartbeat if the broker waits for what the client never had. A
\* cooperative client that loses something joins once more without it.
SyncAsNew(c) ==
  LET gets == IF Mutation = "SyncGroup gives the target" THEN target[c] ELSE known'[c]
      again == ~(own[c] \subseteq gets)
  IN
  /\ Translated(c) /\ cs[c] = "joined" /\ ps[c] = "Completing"
  /\ IF pending[c] \subseteq possibly[c] THEN UNCHANGED <<broker, known, pending, lost>>
     ELSE Beat(c, ListOfHeartbeat(c)) /\ Learns(c, ListOfHeartbeat(c))
  /\ own' = [own EXCEPT ![c] = gets]
  /\ synced' = [synced EXCEPT ![c] = gets]
  /\ possibly' = [possibly EXCEPT ![c] =
       IF Mutation = "what the client had is forgotten at SyncGroup" THEN {} ELSE @ \cup gets]
  /\ cs' = [cs EXCEPT ![c] = IF again THEN "told" ELSE "stable"]
  /\ ps' = [ps EXCEPT ![c] = IF again THEN "Prepare" ELSE "Stable"]
  /\ last' = <<"SyncAsNew", c>>
  /\ UNCHANGED <<gen, via, commits, policy, records, heard, helping, bounds>>

-----------------------------------------------------------------------------
(* Faults and what follows *)

\* A client's connection ends, and it goes on at the other proxy, which may know nothing of it, or what was true before.
Reconnect(c) ==
  /\ faults + deaths < MaxFaults /\ cs[c] \notin {"dead", "waiting"}
  /\ \E p \in Proxies \ {via[c]}:
       /\ c \in new => policy[p] = "translate"
       /\ via' = [via EXCEPT ![c] = p]
  /\ Forgets(c)
  /\ faults' = faults + 1
  /\ last' = <<"Reconnect", c>>
  /\ UNCHANGED <<broker, cs, gen, own, commits, policy, records, heard, helping, changes, deaths>>

\* A call of a translated member that this proxy does not know: it adopts the member, and tells the client to rejoin. The
\* call goes on as a heartbeat without a list.
IsAdopted(c) ==
  /\ c \in new /\ ps[c] = "Absent" /\ cs[c] \in {"stable", "joined", "told"} /\ ~MayRepeat(c)
  /\ IF Mutation = "an adopted member goes on without a rejoin"
     THEN ps' = [ps EXCEPT ![c] = "Completing"] /\ cs' = [cs EXCEPT ![c] = "joined"]
     ELSE ps' = [ps EXCEPT ![c] = "Prepare"] /\ cs' = [cs EXCEPT ![c] = "told"]
  /\ UNCHANGED <<gen, own, via, commits, policy, synced, possibly, records, heard, helping, bounds>>

Adopt(c) ==
  /\ IsAdopted(c)
  /\ Beat(c, NoList)
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
  /\ faults > 0 /\ c \in new /\ cs[c] # "dead"
  /\ Leave(c)
  /\ last' = <<"EndAtTheFormerProxy", c>>
  /\ UNCHANGED <<client, policy, proxy, bounds>>

Die(c) ==
  /\ faults + deaths < MaxFaults /\ cs[c] # "dead"
  /\ cs' = [cs EXCEPT ![c] = "dead"]
  /\ gen' = [gen EXCEPT ![c] = 0]
  /\ own' = [own EXCEPT ![c] = {}]
  /\ commits' = commits \ {c}
  /\ Forgets(c)
  /\ NoRecords(c)
  /\ deaths' = deaths + 1
  /\ last' = <<"Die", c>>
  /\ UNCHANGED <<broker, via, policy, helping, changes, faults>>

\* Whether the end of a membership makes the group a classic one while a member is behind the group epoch.
LeavesOthersBehind(c) == type = "consumer" /\ new = {c} /\ \E m \in Classics: mEpoch[m] # epoch

\* Its proxy has a helper take its place first, which moves no epoch.
HelperStandsIn(c) ==
  /\ cs[c] = "dead" /\ LeavesOthersBehind(c)
  /\ Beats(Helper, {})
  /\ mem' = mem \cup {Helper} /\ new' = new \cup {Helper} /\ helperAt' = via[c] /\ standsIn' = TRUE
  /\ last' = <<"HelperStandsIn", c>>
  /\ UNCHANGED <<claims, timed, client, policy, member, records, heard, bounds>>

ExpireSession(c) ==
  /\ cs[c] = "dead"
  /\ ~LeavesOthersBehind(c) \/ Mutation = "the last member ends while others lag behind"
  /\ c \in mem \ waiting  \* a member whose JoinGroup waits is alive for the broker
  /\ Leave(c)
  /\ last' = <<"ExpireSession", c>>
  /\ UNCHANGED <<client, policy, proxy, bounds>>

StartAgain(c) ==
  /\ cs[c] = "dead" /\ c \notin mem
  /\ cs' = [cs EXCEPT ![c] = "out"]
  /\ last' = <<"StartAgain", c>>
  /\ UNCHANGED <<broker, gen, own, via, commits, policy, proxy, bounds>>

\* The helper's proxy has ended: so does its session.
LoseHelper ==
  /\ faults + deaths < MaxFaults /\ Helper \in mem
  /\ Leave(Helper)
  /\ helperAt' = "nobody" /\ standsIn' = FALSE
  /\ faults' = faults + 1
  /\ last' = <<"LoseHelper">>
  /\ UNCHANGED <<client, policy, member, records, heard, changes, deaths>>

ChangePolicy(p) ==
  /\ changes < MaxChanges
  /\ \A c \in new \cap Clients: via[c] = p => ps[c] # "Absent" \/ cs[c] = "dead"
  /\ policy' = [policy EXCEPT ![p] = IF @ = "observe" THEN "translate" ELSE "observe"]
  /\ changes' = changes + 1
  /\ last' = <<"ChangePolicy", p>>
  /\ UNCHANGED <<broker, client, proxy, faults, deaths>>

-----------------------------------------------------------------------------

Init ==
  /\ type = "empty" /\ phase = "Stable" /\ epoch = 0 /\ mem = {} /\ new = {} /\ waiting = {} /\ timed = {}
  /\ mEpoch = TLCEval([m \in Members |-> 0])
  /\ target = TLCEval([m \in Members |-> {}]) /\ tEpoch = 0
  /\ assigned = TLCEval([m \in Members |-> {}])
  /\ revoking = TLCEval([m \in Members |-> {}])
  /\ claims = TLCEval([m \in Members |-> {}])
  /\ cs = TLCEval([c \in Clients |-> "out"])
  /\ gen = TLCEval([c \in Clients |-> 0])
  /\ own = TLCEval([c \in Clients |-> {}])
  /\ via \in [Clients -> Proxies]
  /\ commits = {}
  /\ policy = TLCEval([p \in Proxies |-> "observe"])
  /\ ps = TLCEval([c \in Clients |-> "Absent"])
  /\ known = TLCEval([c \in Clients |-> {}])
  /\ synced = TLCEval([c \in Clients |-> {}])
  /\ possibly = TLCEval([c \in Clients |-> {}])
  /\ pending = TLCEval([c \in Clients |-> {}])
  /\ lost = TLCEval([c \in Clients |-> FALSE])
  /\ records = TLCEval([c \in Clients |-> [p \in Proxies |-> NoRecord]])
  /\ heard = {} /\ helperAt = "nobody" /\ standsIn = FALSE
  /\ changes = 0 /\ faults = 0 /\ deaths = 0
  /\ last = <<"Init">>

Relayed(c) == \/ JoinClassicGroup(c) \/ JoinAsClassic(c) \/ SyncAsClassic(c) \/ HeartbeatAsClassic(c) \/ EndCommit(c)
Moves(c) == \/ HelperConverts(c) \/ ConvertMember(c) \/ RepeatConversion(c) \/ AskToRejoin(c) \/ JoinAsNew(c)
            \/ AskToGoBack(c) \/ HelperJoins(c) \/ JoinBack(c)
IsTranslated(c) == HeartbeatAsNew(c) \/ KeepAlive(c) \/ RejoinAsNew(c) \/ SyncAsNew(c) \/ Adopt(c)
                   \/ AdoptAgain(c)
Ends(c) == HelperStandsIn(c) \/ ExpireSession(c) \/ StartAgain(c) \/ EndAtTheFormerProxy(c)
Faults(c) == Die(c) \/ Reconnect(c) \/ LoseResponse(c) \/ LoseConversion(c) \/ BeginCommit(c)

Protocol == CompleteClassicRebalance \/ HelperBeats \/ HelperLeaves
            \/ \E c \in Clients: Relayed(c) \/ Moves(c) \/ IsTranslated(c) \/ Ends(c)
Environment == (\E c \in Clients: Faults(c)) \/ LoseHelper \/ \E p \in Proxies: ChangePolicy(p)

Next == epoch < MaxEpoch /\ (Protocol \/ Environment)
Spec == Init /\ [][Next]_vars

\* Which client, which partition and which proxy makes no difference.
Symmetry == Permutations(Clients) \cup Permutations(Partitions) \cup Permutations(Proxies)

-----------------------------------------------------------------------------
(* What has to hold *)

TypeOK ==
  /\ type \in {"empty", "classic", "consumer"} /\ phase \in {"Stable", "Preparing"}
  /\ mem \subseteq Members /\ waiting \subseteq mem /\ new \subseteq mem /\ timed \subseteq mem
  /\ (new # {}) => type = "consumer"
  /\ cs \in [Clients -> {"out", "waiting", "joined", "stable", "told", "dead"}]
  /\ own \in [Clients -> SUBSET Partitions]
  /\ ps \in [Clients -> {"Absent", "Prepare", "Completing", "Stable"}]

\* Invariant 1: no partition is in two clients' hands.
Exclusive == \A c, d \in Clients: c # d => own[c] \cap own[d] = {}

\* What nobody but c may be given.
Kept(c) == assigned[c] \cup revoking[c]

\* Invariant 2: in a consumer group the broker keeps what a client works on until the client has given it up.
Held == type = "consumer" => \A c \in Clients: own[c] \subseteq Kept(c)

\* The broker's own promise.
OneAssignee ==
  type = "consumer" =>
    \A m, n \in mem: m # n => (assigned[m] \cup revoking[m]) \cap (assigned[n] \cup revoking[n]) = {}

\* The proxy never believes that a client has less than it has.
KnownToTheProxy == \A c \in Clients: ps[c] \in {"Completing", "Stable"} => own[c] \subseteq possibly[c] \cup known[c]

\* A client that is alive is a member: no call of it is answered UNKNOWN_MEMBER_ID.
Alive == \A c \in Clients: cs[c] \notin {"out", "dead"} => c \in mem

\* A member that is converted has no timer of its classic membership, which would end it.
NotTimed == timed \cap new = {}

\* A member that is converted has no classic commit under way, which would be refused.
Committed == commits \cap new = {}

\* The generation of no client is refused, also if others die. It is if what a proxy needs for that is lost.
NotIllegal == faults = 0 => \A c \in Clients: cs[c] \in {"joined", "stable"} => ~IsOfAnOlderGeneration(c)

\* No partition has been forgotten by an assignment that is not to be computed anew.
Covered ==
  (type = "consumer" /\ tEpoch = epoch /\ mem # {Helper}) => UNION {target[m]: m \in mem} = Partitions

\* Invariant 3, of which a commit makes use: a client's generation is one that its membership has had.
Generations == \A c \in mem \cap Clients: gen[c] <= mEpoch[c]

\* Invariant 4: where the protocol has nothing more to do, all is as the broker wants it, every partition has an owner,
\* and the group is of the protocol that all proxies say. Nobody's helper was lost.
Converged ==
  (epoch < MaxEpoch /\ ~ENABLED (Protocol /\ view' # view)) =>
    /\ \A c \in Clients:
         /\ cs[c] \in {"stable", "dead"}
         /\ cs[c] = "stable" => own[c] = assigned[c] /\ (type = "consumer" => own[c] = target[c])
    /\ (\E c \in Clients: cs[c] = "stable") => UNION {assigned[c]: c \in Clients} = Partitions
    /\ (\A p \in Proxies: policy[p] = "translate") => mem \subseteq new /\ Helper \notin mem
    /\ (faults = 0 /\ \A p \in Proxies: policy[p] = "observe") => type # "consumer"

\* What is kept for a client, as Ownership.tla means it. A classic group keeps what its last rebalance gave, and while
\* it waits for JoinGroups what its clients have not given up.
KeptFor(c) ==
  IF type = "consumer" THEN Kept(c)
  ELSE own[c] \cup (IF phase = "Stable" THEN Kept(c) ELSE {})

Abstract == INSTANCE Ownership WITH kept <- [c \in Clients |-> KeptFor(c)]
Refines == Abstract!Spec

=============================================================================
