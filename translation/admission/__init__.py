"""Who may act for a member: nothing a request says counts before the broker has accepted its sender."""
