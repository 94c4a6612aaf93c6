"""Scenes: what cameras saw and heard in a household, as transcripts, and how tools read them.

A transcript (`transcript.py`) is written from a typed event script (`scene_scripts.py`) or belongs to a real clip
(`video_clips.py`). `transcript_reader.py` holds the data functions behind the scene tools.
"""
