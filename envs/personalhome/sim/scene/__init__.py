"""Scenes: what cameras saw and heard in a household, as transcripts, and how tools read them.

A transcript (`transcript.py`) is written from a typed event script (`script.py`) or belongs to a real clip (`videos.py`).
`reading.py` holds the data functions behind the scene tools.
"""
