"""Home Assistant's MCP server, as far as a record needs it."""

from __future__ import annotations

from typing import Any

import httpx


class Mcp:
    """The Assist API of a Home Assistant, by MCP over HTTP."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of a method, or {"error": ...}."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = (await self._http.post("/api/mcp/assist", json=body, headers={"Accept": "application/json"})).json()
        result: dict[str, Any] = answer.get("result", {"error": answer.get("error")})
        return result

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """A tool call, whether it failed, and its text."""
        result = await self.ask("tools/call", name=tool, arguments=arguments)
        if "error" in result:
            return {"tool": tool, "arguments": arguments, "error": result["error"]}
        text = "".join(part["text"] for part in result["content"])
        return {"tool": tool, "arguments": arguments, "failed": result["isError"], "text": text}
