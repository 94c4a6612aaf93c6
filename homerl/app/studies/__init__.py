"""What a person evaluates by a command, outside of a recipe's run: a model on a suite, and a user."""
