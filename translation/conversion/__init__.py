"""What the broker's conversion of a live group allows, and the helper member that converts it."""
