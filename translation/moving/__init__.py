"""How the members of a live group switch to the new protocol and back, one by one, and who may meanwhile."""
