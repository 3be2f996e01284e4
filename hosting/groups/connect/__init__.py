"""An experiment: a hosted group of Kafka Connect's workers (protocol type ``connect``).

Theory of operation. A worker's leader does more than assign: it alone writes configurations, fences zombies and hands
out session keys, and others send it their REST calls. Its assignor (``IncrementalCooperativeAssignor``) remembers what
it did, and says differences: what each worker takes up, and what it gives up. So one worker leads as long as it is a
member, all that is assigned comes from it, and nobody else is asked while it lives.

    news      a worker comes, goes, or says in its JoinGroup what was not known; any JoinGroup of the leader
    round     the leader, told at its Heartbeat, joins, is told the group, and its SyncGroup brings the differences
    part      the difference of one worker, which waits for it: the worker is told at its Heartbeat, if it has any
    confirm   a worker that was told to give up does so, and joins again by itself, which is news

Only the leader and the workers with a part rejoin. What keeps a task on one worker:

* A worker *runs* what it said in its last JoinGroup and what it was handed since. What it was told to give up counts
  until a JoinGroup of it does not list it any more.
* A round begins when no part waits and all that was to be given up is confirmed, so the leader is told what is true,
  and each part fits what its worker runs. A part for a worker that has said something else meanwhile is dropped, and
  there is another round.
* A part never has what another worker runs, also one that has come since.

This is not done over :mod:`coordinator.connect_groups`, which has the KIP's own calls. There a member joins with
nothing, declares all that is configured, and is assigned the whole of its part; a classic worker goes on with its tasks
when it has lost its membership, never says what is configured, and its leader leaves tasks to nobody while it waits for
a lost worker. The waiting that the KIP's coordinator does for an assignor, Connect's does by itself.
"""
