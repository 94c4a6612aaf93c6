"""Packed training: rows of tokens without padding, in which sequences share their common beginning.

`trees` merges sequences, `passes` splits them into passes (micro-batches) by a budget of tokens, which `budget` derives
from the memory. `rows` makes the model's inputs of a pass, `attention` lets each token see its own sequence only, and
`updates` adds up the passes.
"""
