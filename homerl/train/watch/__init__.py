"""What is watched while a training runs: the signal, deadlines, progress and panels."""
