"""Packed training: rows of tokens without padding, in which sequences share their common beginning.

`trees` merges sequences, `passes` splits them by a budget of tokens, `attention` lets each token see its own sequence
only, `budget` derives the budget from memory, and `trainer` makes an update of several passes.
"""
