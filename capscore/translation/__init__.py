"""Captions → the same captions in other languages, each the best of many (Gomes et al. 2025, App. C).

A translation model writes candidates by beam search, a language identifier turns those away that are in
another language, and quality estimation chooses among the rest.
"""
