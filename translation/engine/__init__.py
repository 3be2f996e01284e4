"""What every group API stands on: procedures that wait for answers, members, connections, timers."""
