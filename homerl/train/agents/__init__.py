"""Programs as agents: anything that talks to an endpoint and a world's MCP server is played, judged and trained."""
