"""Patches of other libraries, one file each: the defect, its versions, and the upstream change that would end it.

Invariants: nothing is applied at import time; the code that needs a patch calls it. Other packages do not use private
names of a library, except by overriding a method of a class that they extend. Nothing here imports another package.
tests/homerl/test_workarounds.py fails as soon as a library no longer needs its patch.
"""
