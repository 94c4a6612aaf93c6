"""Packed training: rows of tokens without padding, in which sequences share their common beginning.

`micro_batches` merges sequences, and splits them into passes by a budget of tokens that it derives from the memory.
`packed_rows` makes the model's inputs of a pass, `attention` lets each token see its own sequence only, `compiled_layers`
fuses the layers' small operations, and `packed_updates` adds up the passes.
"""
