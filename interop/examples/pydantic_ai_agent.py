"""An agent on pydantic-ai, which RLVE trains by `agent: {command: [python, pydantic_ai_agent.py]}`.

It needs `pip install 'pydantic-ai-slim[openai,mcp]'`, in any environment: `command` may name its Python.
"""

import os
import sys
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelMessagesTypeAdapter
from pydantic_ai.models.openai import OpenAIChatModel

# The tools of the home; its instructions are the system prompt. A refused call is shown to the model, and is no error.
world = MCPToolset(os.environ["HOMERL_MCP_URL"], include_instructions=True, tool_error_behavior="failed")
agent = Agent(OpenAIChatModel("policy"), toolsets=[world], retries=3)  # OPENAI_BASE_URL and OPENAI_API_KEY are set
kept = Path(os.environ["HOMERL_FOLDER"]) / "history.json"  # the folder stays for the episode, and this program for a turn
history = ModelMessagesTypeAdapter.validate_json(kept.read_bytes()) if kept.exists() else []
done = agent.run_sync(sys.stdin.read().strip(), message_history=history)
kept.write_bytes(done.all_messages_json())
print(done.output)  # what is printed is said to the user
