"""TLC, the model checker of TLA+, as a jar from Maven Central."""
