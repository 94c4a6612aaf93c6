"""The worlds as all of homerl sees them: their contract (`contract.py`), their registry (`registry.py`), what they share
(`paraphraser.py`, `sources.py`), and who speaks in them (`users.py`, `behaviour_rates.py`).

The worlds themselves are folders of `homerl.envs`.
"""
