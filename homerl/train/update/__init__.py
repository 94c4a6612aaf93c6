"""One update: the trainers of SFT and RLVE, the objective, and its losses."""
