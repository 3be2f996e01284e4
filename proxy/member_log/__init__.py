"""The member log's topic: made or checked at the start, read and written by threads beside trio."""
