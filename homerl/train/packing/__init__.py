"""Packed training: rows of tokens without padding, in which sequences share their common beginning.

`packed_updates` splits the sequences into passes, makes a row of each, and adds up the passes. `prefix_tree` merges what
sequences begin with, `pass_budget` derives the tokens of a pass from the memory, `attention` lets each token see its own
sequence only, and `compiled_layers` fuses the layers' small operations.
"""
