"""Questions about a household: typed programs, whose answers, distractors, counterfactuals and evidence are computed."""
