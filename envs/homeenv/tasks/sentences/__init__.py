"""Sentences of Home Assistant's users, and what they mean in a home. `people_wording.py` says wishes in them.

- `matching.py`: what a sentence means to Home Assistant's own matcher.
- `templates.py`: the templates of sentences, and how one is filled.

`home-assistant-intents`, which holds the sentences, comes with the extra `serve`. So nothing of this package is imported
before a recipe or a command asks for it.
"""
