"""What several benchmarks share: systems under test, prepared frames, crowds of members, relays, what is counted.

Nothing here knows a benchmark.
"""
