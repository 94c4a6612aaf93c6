"""Grammars that make sentences, rules that check answers, and the split of sentences; all of them independent of a world."""
