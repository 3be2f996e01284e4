"""What every kind of test shares."""

pytest_plugins = ("plugins.skip_report",)
