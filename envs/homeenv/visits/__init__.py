"""How a person visits a home: which home it is, what it looks like, and what becomes other in it."""
