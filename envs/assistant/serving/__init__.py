"""An agent served to Home Assistant: it acts in a twin of the home first, and in the home itself only if it may."""
