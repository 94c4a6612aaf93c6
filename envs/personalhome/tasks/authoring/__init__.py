"""The LLM author: its requests, the forms of its answers, and the rules by which they are read."""
