"""Users: they speak for a blueprint's unmet intents; scripted or an LLM."""
