"""The language of HomeEnv's people: from meanings to sentences.

- `meaning.py`: what people want to say, without words, and which devices a reference denotes.
- `speaker.py`: puts meanings into noun phrases, clauses and sentences of one style.
- `times_and_states.py`: times, durations, conditions and states in words.
- `utterances.py`: complete sentences, with errors of speech if the wording is noisy.
- `known_languages.py`: the folders of languages and their grammars.
"""
