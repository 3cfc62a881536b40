"""Trains the network of marks: which words of a caption are right, whether it fits, where things are."""
