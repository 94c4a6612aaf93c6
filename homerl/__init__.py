"""homerl: a training stack for smart-home agents."""

__version__ = "0.1.0"
