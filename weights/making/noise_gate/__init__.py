"""The gate of `embedded-pr-mcs`: captions in many styles, damaged by degree, and how far that goes."""
