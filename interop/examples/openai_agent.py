"""An agent on the `openai` package and an MCP client, which RLVE trains by `agent: {command: [python, openai_agent.py]}`."""

import asyncio
import json
import os
from pathlib import Path

from mcp import Client
from openai import AsyncOpenAI


async def main() -> None:
    messages = json.loads((Path(os.environ["HOMERL_FOLDER"]) / "messages.json").read_text("utf-8"))
    model = AsyncOpenAI()  # OPENAI_BASE_URL and OPENAI_API_KEY are set
    async with Client(os.environ["HOMERL_MCP_URL"]) as world:
        offered = (await world.list_tools()).tools
        tools = [
            {"type": "function", "function": {"name": t.name, "description": t.description, "parameters": t.input_schema}}
            for t in offered
        ]
        while True:
            answer = await model.chat.completions.create(model="policy", messages=messages, tools=tools)
            said = answer.choices[0].message
            messages.append(said.model_dump(exclude_none=True))
            for call in said.tool_calls or ():
                result = await world.call_tool(call.function.name, json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result.content[0].text})
            if not said.tool_calls:
                return print(said.content)  # what is printed is said to the user


asyncio.run(main())
