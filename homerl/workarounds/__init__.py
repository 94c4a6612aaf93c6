"""Patches of other libraries, one a file: what is wrong there, in which versions, and what each patch waits for.

Invariants: nothing is applied at import time, whoever needs a patch calls it; no other room reaches into the private
names of a library but by overriding a method of a class that it extends; nothing here imports another room;
tests/homerl/test_workarounds.py fails as soon as a library needs its patch no more.
"""
