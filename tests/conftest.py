"""What holds for every test: none of them is timed."""

from hypothesis import settings

settings.register_profile("not timed", deadline=None)
settings.load_profile("not timed")
