"""Speed and memory of capscore, measured here and now: `python -m benchmarks` prints one table."""
