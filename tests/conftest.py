"""Hypothesis: a few cases of every property by default, thousands under the profile `many` (`scripts/test --all`)."""

from hypothesis import settings

settings.register_profile("many", deadline=None)
