"""Patches of other libraries, one file each: the defect, its versions, and the upstream change that would end it.

Invariants: nothing is applied at import time; the code that needs a patch calls it. Other packages use a library's private
names only in classes that extend a class of the library: they override a method, or call it on `self`. Nothing here imports
another package. tests/homerl/train/test_workarounds.py fails as soon as a library no longer needs its patch.
"""
