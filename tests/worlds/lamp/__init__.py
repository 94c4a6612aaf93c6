"""A world of one lamp: the smallest that is whole. It shows what a world must provide, and that nothing else must know it.

Invariant: everything about the lamp is in this folder.
"""
