"""For tests of what is built on Rheostat."""

from rheostat.testing.policies import check_policy

__all__ = ["check_policy"]
