"""A person's talk with an agent in a home: the session, and its two faces, the terminal and a page."""
