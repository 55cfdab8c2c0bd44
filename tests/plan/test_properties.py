"""What holds for all figures and states."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.plan.samples import HEALTHY, reactive

from rheostat.config import GuardSettings
from rheostat.model import Action, Assessment, Bounds, Code, Objective, Reason, Recommendation
from rheostat.plan import STEPS, Context, GuardState, Pending, Planner, PlanState
from rheostat.plan.capacity import Figure, Learned
from rheostat.plan.guard import shape, silent, spoilt
from rheostat.plan.ineffective import Cause, Useless
from rheostat.plan.reactive import ReactiveState
from rheostat.plan.steps_metrics import oldest_s, sound

AT = 1000.0


def maybe(strategy):
    return st.none() | strategy


rates = st.floats(0.0, 1e6, allow_subnormal=False)
executors = st.integers(1, 40)
ages = st.floats(0.0, 500.0)
past = maybe(st.floats(0.0, AT))
