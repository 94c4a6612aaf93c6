"""A home as Home Assistant's Assist API shows and controls it: entities, the matching of intents, prompt and results."""
