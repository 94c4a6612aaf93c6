"""The language of HomeEnv's people: meanings, noun phrases, times, sentences and noise."""
