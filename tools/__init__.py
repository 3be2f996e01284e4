"""Programs for people who work on Epochgate. Nothing here is part of the product."""
