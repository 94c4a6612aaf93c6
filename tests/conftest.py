"""Sets up Hypothesis: a few cases per property by default, thousands with the profile `many` (`scripts/test --all`)."""

from hypothesis import settings

settings.register_profile("many", deadline=None)
