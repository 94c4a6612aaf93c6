"""Output on the terminal: messages and progress bars."""
