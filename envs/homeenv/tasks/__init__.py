"""Blueprints: user intents as checkable conditions on a home (HomeFlow 3.3.1, Appendix B)."""
