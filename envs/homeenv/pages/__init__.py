"""HTML pages that show HomeEnv homes."""
