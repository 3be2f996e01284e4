"""Histories of a Connect group in virtual time, on the real coordinator: a seed is a history.

Workers are slow, compute wrong assignments, die between Prepare and Install, install for an old epoch; requests and
answers are lost; the coordinator dies before or after it has written a change. Then all faults end, but for one worker
that may never compute anything valid, and the group has to come to rest, and again after one worker has died for good.
:mod:`judge` knows only what went over the wire, what is in the log, and what the workers run.
"""
