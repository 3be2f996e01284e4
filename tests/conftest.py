"""What every kind of test shares."""

pytest_plugins = ("tests.plugins.skip_report",)
