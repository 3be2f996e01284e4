"""Delta Lake as jars, so that no Spark session downloads anything while it starts."""
