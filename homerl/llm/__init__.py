"""Chat models behind OpenAI-compatible endpoints."""
