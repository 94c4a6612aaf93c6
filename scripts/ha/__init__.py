"""The real Home Assistant of the tests: its home, and the records of its answers."""
