"""Child processes that end when their parent ends."""
