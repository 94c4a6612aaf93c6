"""Pictures and pages of runs, for people."""
