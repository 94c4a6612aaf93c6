"""Figures of samples: intervals, agreement, diversity of texts."""
