"""What makes a package of the repository: its facts, the files that follow from them, builds and releases."""
