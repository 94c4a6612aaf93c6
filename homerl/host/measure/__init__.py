"""Statistics of samples: confidence intervals, agreement, diversity of texts, costs of a search."""
