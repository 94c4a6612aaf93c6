"""Blueprints: intents compiled into checkable conditions (HomeFlow 3.3.1, Appendix B)."""
