"""Tiny models, invented official files, servers on this machine: what tests, goldens and speed are run on."""
