"""Configuration as a documented value: what can be set, what it means, and why it has its default."""

from rheostat.config.loading import load_settings
from rheostat.config.models import GuardSettings, MetricsSettings, Mode, Settings, WorkersSettings
from rheostat.config.policy_names import policy_label, split_policy
from rheostat.config.profiles import PROFILES
from rheostat.config.published import PUBLISHED, Ratio, profile_ratios
from rheostat.config.reference import reference

__all__ = [
    "PROFILES",
    "PUBLISHED",
    "GuardSettings",
    "MetricsSettings",
    "Mode",
    "Ratio",
    "Settings",
    "WorkersSettings",
    "load_settings",
    "policy_label",
    "profile_ratios",
    "reference",
    "split_policy",
]
