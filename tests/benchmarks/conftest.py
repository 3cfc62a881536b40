"""No trace outside the test's own folder."""

from ..datasets_scripts.conftest import _own_cache

__all__ = ["_own_cache"]
