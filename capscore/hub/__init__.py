"""Modules, weights and data sets → repositories on the Hub."""
