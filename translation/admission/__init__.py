"""What is checked before a call counts: rights of its client, the replica that serves the member, the policy."""
