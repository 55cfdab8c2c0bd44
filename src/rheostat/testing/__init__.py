"""For tests of what is built on Rheostat."""

from rheostat.testing.policies import LAWS, check_policy
from rheostat.testing.stories import STORIES, Step, Story

__all__ = ["LAWS", "STORIES", "Step", "Story", "check_policy"]
