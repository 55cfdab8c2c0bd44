"""What holds for every test: none is timed.

``--hypothesis-profile=thorough`` looks ten times as hard.
"""

from hypothesis import settings

settings.register_profile("quick", deadline=None, max_examples=50)
settings.register_profile("thorough", deadline=None, max_examples=500)
settings.load_profile("quick")
