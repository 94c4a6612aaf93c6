"""Pages of PersonalHome, each one file that needs no network."""
