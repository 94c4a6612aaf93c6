"""Benchmarks: suites of held-out blueprints, played and scored by the home."""
