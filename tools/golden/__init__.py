"""Golden results: what capscore answered at one commit in, every answer that differs today out.

    python -m tools.golden write tests/golden/results.json
    python -m tools.golden compare tests/golden/results.json

Cases go through the public surface alone: `capscore.load` and its like, old module names, `evaluate`, and
`python -m capscore`. They belong to one set of packages; `compare --help` says what can be left out.
"""
