"""How a live group moves to the new protocol and back, member by member, and who may join meanwhile."""
