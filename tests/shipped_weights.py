"""The weights of PR-MCS that ship, on a backbone that is loaded already."""

from __future__ import annotations

import copy
from unittest import mock

from capscore import load_backbone
from capscore.backbones.base import Backbone


def pr_mcs_on(embedded: Backbone) -> Backbone:
    """`embedded-pr-mcs`, its base not loaded once more; `embedded` stays as it is."""
    # a copy shares the towers, but gets a gate of its own
    with mock.patch("capscore.backbones.learned.load_embedded", lambda **options: copy.copy(embedded)):
        return load_backbone("embedded-pr-mcs", device="cpu")
