"""The worlds as all of homerl sees them: their contract (`contract.py`), their registry (`registry.py`), what they share
(`paraphrase.py`, `sources.py`, `unmade.py`, `visits.py`), and the LLM users who speak in them (`users/`).

The worlds themselves are folders of `homerl.envs`.
"""
