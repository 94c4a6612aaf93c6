"""Benchmarks: suites of held-out blueprints, played by an agent and scored from the home's state."""
