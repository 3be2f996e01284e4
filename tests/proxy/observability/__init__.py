"""What operators see: groups, snapshots, journal, pages, alert rules and dashboard."""
