"""Scenes: what cameras saw and heard in a household, as transcripts.

A transcript (`transcript.py`) is written (`transcript_writer.py`) from a typed event script (`scene_scripts.py`) that a
household plays (`script_player.py`), or belongs to a real clip (`video_clips.py`). `tools/scene_tools.py` reads it.
"""
