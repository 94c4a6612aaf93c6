"""Sets up Hypothesis: a few cases per property by default, thousands with the profile `many` (`scripts/test --all`)."""

from hypothesis import settings

settings.register_profile("few", deadline=None)  # a busy machine fails no test
settings.register_profile("many", deadline=None)
settings.load_profile("few")
