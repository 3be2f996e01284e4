"""How a live group gets to the new protocol and back, member by member, and who may join meanwhile."""
