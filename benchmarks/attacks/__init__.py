"""What hostile peers do to two replicas with a member log: each attack by itself, before and after a change.

    python -m benchmarks.attacks [--code FOLDER] [--members 20000] [--only TEXT]

The parts (what is written to the topic, rights and settings that change, hooks that lie, an admin port under fire) are
those of ``make soak FIRE=1`` too.
"""
