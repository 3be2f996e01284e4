"""The way of a first JoinGroup through the code, from a traced run: ``python -m tools.first_join`` writes its page."""
