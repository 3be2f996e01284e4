"""Which way each group call takes: translated, relayed to the broker, refused, or part of a move between protocols."""
