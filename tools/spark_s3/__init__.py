"""Hadoop's file system for `s3a:` as jars, so that no Spark session downloads anything while it starts."""
