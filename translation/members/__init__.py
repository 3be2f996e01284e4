"""One member and its parts: states, ids, generation, timeouts, the group that it is in and how far
that is with its move, procedures under way; and the environment of a call: its time, actions and timers.
"""
