"""LLM users, which speak for a blueprint's unmet intents, and the choice between them and the scripted user."""
