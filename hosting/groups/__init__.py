"""An experiment: hosted groups, whose classic clients are members of a group with client-side assignors (KIP-848).

The classic calls JoinGroup, SyncGroup, Heartbeat and LeaveGroup of a group are served here, and the assignment is the
one that an assignor of the clients has computed. No broker of Kafka has it; the proxy offers it as ``mode: host``
(``docs/explanation/hosted-groups.md``), only where the policy says ``experimental: true``.

Theory of operation. Each hosted group has an embedded coordinator of its own, in memory, with that one group in it
(:mod:`coordinator.consumer_groups.client_side`). A classic client is a member of it:

    JoinGroup    a heartbeat with its topics, its assignors, and what it says that it still owns
    Heartbeat    a heartbeat without news; REBALANCE_IN_PROGRESS if its own part has changed, or it is to compute
    SyncGroup    its partitions; of the member that computes: ConsumerGroupInstallAssignment with what it has computed
    LeaveGroup   a heartbeat with epoch -1

The member that is to compute is told so by REBALANCE_IN_PROGRESS. Its JoinGroup is answered as that of a classic
leader, with all members and their subscriptions. All others are followers, and are disturbed only if their part
changes. The coordinator lets a partition go to its next owner when the one before has given it up, as for every member
of the new protocol; a classic client has done so when its JoinGroup does not list it any more.

What the classic protocol does not have, and where it comes from:

* **Topics.** How many partitions a topic has is what the leader says by assigning them, as in classic groups. Topic ids
  are made from names.
* **What each member has, for the leader.** The target, not what members say: that is old for those that did not rejoin.
  ``owned_partitions`` of subscriptions, and the user data of Kafka's two sticky assignors, are written anew from it.
* **Cooperative assignors** leave a partition that is to move to nobody, and expect a second round. The leader gets it
  at once, with that partition owned by nobody, and only what it then says is installed.

The code: ``room`` has all groups; ``group`` one, with its sessions and JoinGroups; ``rules`` is what a protocol type
has to bring, and ``consumers/`` is that for consumers.
"""
