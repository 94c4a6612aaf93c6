"""The language of HomeEnv's people: meanings, noun phrases, times, sentences, noise and paraphrases."""
