"""One update: the trainers of SFT and RLVE, and the objective."""
