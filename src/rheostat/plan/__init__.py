"""Assessment → Decision, pure: policies propose a number of executors, one ordered pipeline of guards shapes it."""

from rheostat.plan.checking import checked_settings, policy_faults
from rheostat.plan.effects import NoEffect, no_effect
from rheostat.plan.guard import STEPS, Direction, Step
from rheostat.plan.placement import Placing
from rheostat.plan.planner import Planner, PlanState
from rheostat.plan.policy import Policy, PolicyContext, PolicyFactory, in_force
from rheostat.plan.registry import GROUP, load_policy, policy_names
from rheostat.plan.steps import Change, Context, GuardState, Pending

__all__ = [
    "GROUP",
    "STEPS",
    "Change",
    "Context",
    "Direction",
    "GuardState",
    "NoEffect",
    "Pending",
    "Placing",
    "PlanState",
    "Planner",
    "Policy",
    "PolicyContext",
    "PolicyFactory",
    "Step",
    "checked_settings",
    "in_force",
    "load_policy",
    "no_effect",
    "policy_faults",
    "policy_names",
]
