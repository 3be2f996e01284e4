"""What operators see of groups: their members, recent history, metrics and forecast, as events and brokers tell."""
