"""What operators see of groups: snapshots, events, metrics, alert rules and dashboard."""
