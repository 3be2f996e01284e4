"""The checks, by what they look at. Each is a function from the facts to findings; :mod:`.table` lists them all."""
