"""The weights of PR-MCS that ship, on a backbone that is loaded already."""

import copy
from unittest import mock

from capscore import load_backbone


def pr_mcs_on(base):
    """`embedded-pr-mcs`, its base not loaded once more; `base` stays as it is."""
    # a copy shares the towers, but gets a gate of its own
    loader = {"embedded": "load_embedded", "embedded-free": "load_free"}[base.name]
    with mock.patch(f"capscore.backbones.embedded.backbone.{loader}", lambda **options: copy.copy(base)):
        return load_backbone("embedded-pr-mcs", device="cpu")
