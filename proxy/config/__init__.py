"""The configuration file: its schema, how it is read and checked, and how files are watched for changes."""
