"""Training: SFT and step-wise RLVE."""

TRAININGS = ("sft", "rlve")  # the kinds of runs, and the stages of a flywheel, that train a model
