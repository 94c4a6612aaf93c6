"""What a person starts: the command line, runs of recipes, chats, studies and served models."""
