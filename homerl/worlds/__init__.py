"""The worlds as all of homerl sees them: their contract (`contract.py`), their registry (`registry.py`), what they share
(`paraphraser.py`, `sources.py`, `home_visits.py`), and the LLM users who speak in them (`users/`).

The worlds themselves are folders of `homerl.envs`.
"""
