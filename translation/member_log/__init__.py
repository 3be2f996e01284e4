"""The member log, by which several replicas agree which of them serves a member, and whether the member is ended."""
