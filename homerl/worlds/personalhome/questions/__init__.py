"""Questions about a household: small typed programs whose answers, distractors, counterfactuals and evidence are computed."""
