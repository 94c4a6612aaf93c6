"""Users: they speak from a blueprint's open intents."""
