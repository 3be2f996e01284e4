"""What an operator sees: groups and their members as they are now, their latest history, metrics, journal, pages.

Everything here only listens: it is told events and asked for pictures, and nothing that clients do waits for it.
"""
