"""Benchmarks of capscore: `speed` for time and memory (`python -m benchmarks`), `studies` for quality."""
