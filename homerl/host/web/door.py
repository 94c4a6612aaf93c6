"""Which requests a server takes.

Invariants:
- A request with a body needs JSON as its content type, and a server without a key takes only requests for this machine, so
  that no web page in a browser can send one.
- A server with a key takes nothing without it. A browser sends it as a password, for pages alone; the proxy of
  `Address.ingress` needs none for them.
"""

from __future__ import annotations

import hmac
import json
import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from homerl.envs.core.world import is_too_deep
from homerl.host.web.address import ServerAddress, is_loopback

LONGEST = 200_000  # bytes of a request
DEEPEST = 64  # levels of its JSON
HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\[\]@:/\s]+))(?::\d+)?", re.IGNORECASE)  # as the header has it


class BadRequest(Exception):
    """A request that is refused, with its HTTP status."""

    def __init__(self, status: int, what: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(what)
        self.status, self.headers = status, headers


async def refusal_response(request: Request, error: Exception) -> Response:
    """The answer to a request that is refused, in OpenAI's form."""
    assert isinstance(error, BadRequest)
    return JSONResponse({"error": {"message": str(error), "type": "invalid_request_error"}}, error.status, error.headers)


def admit_request(request: Request, address: ServerAddress, browser: bool = False) -> None:
    """Refuse a request that does not come from a program of this machine, or that lacks the key."""
    if browser and request.client is not None and request.client.host == address.ingress:
        return
    if address.key is None:
        _admit_local(address, request.headers.getlist("host"))
    elif not hmac.compare_digest(_key_of(request, browser).encode(), address.key.encode()):
        asks = {"WWW-Authenticate": 'Basic realm="homerl, the key as password"'} if browser else None
        raise BadRequest(401, "the key is missing or wrong", asks)


def _admit_local(address: ServerAddress, hosts: Sequence[str]) -> None:
    """Refuse a name that was made to point here."""
    found = HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
    if found is None or not is_loopback((found[1] or found[2]).lower()):
        named = f"the host '{hosts[0]}' is not this machine" if len(hosts) == 1 else "the request names no one host"
        raise BadRequest(403, f"{named}: ask for {address.bracketed_host}, or serve with --host and --key-env")


def _key_of(request: Request, browser: bool) -> str:
    """The key that a request brings: as a token, or, from a browser, as the password of any user."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return given.strip()
    if not browser or scheme.lower() != "basic":
        return ""
    try:
        return b64decode(given, validate=True).decode("utf-8").partition(":")[2]
    except ValueError:  # it is no password
        return ""


async def read_json_body(request: Request) -> dict[str, Any]:
    """The JSON object that a request brings. Raises `BadRequest` for anything else."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise BadRequest(415, "the content type must be application/json")
    raw = b""
    try:
        async for part in request.stream():
            raw += part
            if len(raw) > LONGEST:
                raise BadRequest(413, f"a request has at most {LONGEST} bytes")
    except ClientDisconnect:  # nobody hears the answer
        raise BadRequest(400, "the body is not whole") from None
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise BadRequest(400, f"the body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise BadRequest(400, "the body is not a JSON object")
    if is_too_deep(body, DEEPEST):
        raise BadRequest(400, f"the body is nested more than {DEEPEST} levels deep")
    return body
