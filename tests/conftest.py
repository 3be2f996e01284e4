"""What every kind of test shares."""

from hypothesis import settings

pytest_plugins = ("tests.plugins.skip_report",)

# The same examples in every run, so that what is red here is red elsewhere; no deadline, because shared
# machines pause. Other examples: `pytest --hypothesis-profile=default --hypothesis-seed=...`.
settings.register_profile("steady", derandomize=True, deadline=None, print_blob=True, database=None)
settings.load_profile("steady")
