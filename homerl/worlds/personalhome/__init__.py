"""PersonalHome, the world of PersonalHomeBench: questions about a household, and plans for it."""
