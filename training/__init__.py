"""Recipes that make the weights which capscore loads."""
