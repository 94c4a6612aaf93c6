"""Models by name, loaded or behind a server: agents that answer with them, and a server that offers them to others."""
