"""The handbook: documents of this repository → a site, with pages of commands, recipes and benchmarks.

    make handbook

Every page is written in this repository once: guides in `docs/`, cards beside their metrics and benchmarks.
Pages of commands come from their options, and pages of recipes from their settings.
"""
