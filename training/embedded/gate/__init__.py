"""The gate of `embedded-pr-mcs`: captions in many styles, damaged by degree, and a network that tells how far."""
