"""What operators see of groups: their members, recent history, lag, metrics and forecast, by events and brokers."""
