"""What every group API stands on: the scheduler, connections, the registry of groups and members, events."""
