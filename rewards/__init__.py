"""What one step earns: one small pure function a file, over `envs.world.StepFacts`.

Invariants: a reward looks at nothing but the facts of a step, so every reward of a stored trajectory can be
recomputed from it; every term but `progress` and `success` is at most 0.
"""
