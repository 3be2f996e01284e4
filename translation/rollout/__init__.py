"""What is decided of moves by steps: the next step and wave, slots, gates, commands, the hook, the proof."""
