"""Tools for whoever works on capscore: mutants, checks of a release."""
