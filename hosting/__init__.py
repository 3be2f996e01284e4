"""Hosted groups (``mode: host``), an experiment: the proxy serves a whole group itself, in the broker's place.

Production knows them as a :class:`translation.engine.group_router.GroupRouter`, which :mod:`proxy.server.process` makes
if the configuration has ``experimental: true``; nothing else imports this package.

``router`` is that seam's implementation; ``calls`` the calls of a group, with the way in and back; ``state`` what is
kept for that; ``replicas`` and ``host_log`` which of several replicas hosts a group; ``groups`` the groups themselves,
which ``process_room`` drives in this process's time.
"""
