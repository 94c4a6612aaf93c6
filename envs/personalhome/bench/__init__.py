"""PersonalHomeBench: its suite, and what a result and a report hold."""
