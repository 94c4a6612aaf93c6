"""What a person starts: the command line, runs of recipes, chats, benchmarks and served models."""
