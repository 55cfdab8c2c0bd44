"""What holds for every test: none is timed, and Hypothesis tries few examples unless it is told otherwise.

``RHEOSTAT_HYPOTHESIS=usual``, as ``.ci/run`` sets it, tries 50 for a property, ``thorough`` 500.
"""

import os

from hypothesis import settings

settings.register_profile("quick", deadline=None, max_examples=12)
settings.register_profile("usual", deadline=None, max_examples=50)
settings.register_profile("thorough", deadline=None, max_examples=500)
settings.load_profile(os.environ.get("RHEOSTAT_HYPOTHESIS", "quick"))
