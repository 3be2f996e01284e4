"""Every interleaving of a small world, instead of many random ones of larger worlds.

What there is to explore is a *scope*: a group of three members and one process (:mod:`.three_members`), or one member
and two replicas with a member log (:mod:`.fleet`). At every state any of these may come next:

* the first message in flight on any direction of any connection arrives (deliveries take no time);
* once nothing is in flight: time passes until the next timer or the next call of a client;
* as often as the scope says, a *fault*, of the kinds that the scope has.

States are the same if their fingerprints are (:mod:`tests.simulation.fingerprint`); each is looked at once.
Procedures are generators, which cannot be copied, so a state is reached again by taking the same choices from the
beginning.
The invariants are checked at every step, and from each state at the horizon the run must settle.

What is left out, and why nothing is lost by it:

* A state with one choice only is passed through without being remembered: whoever comes there again comes to the same
  next state, which is remembered if it has a choice.
* When no fault is left, an answer on its way to a client that changes nothing which an invariant looks at
  (Heartbeat, a commit, JoinGroup; neither what the client holds nor its contract) arrives first, and alone. Such a
  delivery changes only its client, which hears nothing else meanwhile (it has one connection), and appends to pipes
  that are read in order. So it commutes with every delivery to anybody else, and time does not pass before it has
  arrived. This is a persistent set of one (Godefroid, "Partial-Order Methods for the Verification of Concurrent
  Systems", 1996). Before the fault it would not be: a cut may lose the answer.
"""
