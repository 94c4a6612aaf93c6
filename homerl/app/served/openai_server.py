"""An OpenAI-compatible endpoint for a model that this process loads: what serves a model where vLLM cannot, on a CPU.

A message is asked for and read as everywhere in homerl (`LoadedModel.make_agents`), so whoever plays with the endpoint gets
the calls that it would get from the model's folder. That is why this is not `transformers serve` (5.17): it leaves out the
words of an earlier message that has calls, escapes in calls what is not ASCII, so that the model reads other text than it
wrote, and lists the models of the hub's cache and not its own.

Invariants: messages are sampled one after the other; one for a client that has hung up is left; it admits whom
`homerl.host.web_server` admits; what is wrong with a request is told with the status 400, before anything is sampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import TemplateError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from homerl.app.served.model_agents import LoadedModel
from homerl.envs.core.messages import replace_surrogates
from homerl.host.web_server import (
    BadRequest,
    ServerAddress,
    admit_request,
    completion_response,
    models_response,
    read_json_body,
    refusal_response,
    wants_json,
)
from homerl.models.policy.completion_requests import await_unless_gone, completion_message, parse_completion_request
from homerl.play.faults import AgentFault
from homerl.play.situation import JSON_ANSWERS, Observation, Reply


@dataclass(frozen=True)
class ModelServer:
    """The routes. `max_tokens` are the most of a message for which the request names no limit."""

    model: LoadedModel
    address: ServerAddress
    max_tokens: int = 512

    def build_server_app(self) -> Starlette:
        """The application."""
        routes = [
            Route("/v1/models", self._list_models),
            Route("/v1/chat/completions", self._complete_chat, methods=["POST"]),
        ]
        return Starlette(routes=routes, exception_handlers={BadRequest: refusal_response})

    async def _list_models(self, request: Request) -> Response:
        admit_request(request, self.address)
        return models_response(self.model.name)

    async def _complete_chat(self, request: Request) -> Response:
        admit_request(request, self.address)
        body = await read_json_body(request)
        asked = parse_completion_request(body)
        messages = tuple(said.to_chat_message for said in asked.messages)
        protocol = {JSON_ANSWERS: True} if wants_json(body) else {}
        observation = Observation("request", messages, tuple(body.get("tools") or ()), protocol=protocol)
        most = asked.max_completion_tokens or asked.max_tokens or self.max_tokens
        most = min(most, self.model.engine.engine.context_length or most)  # never more than the model takes in all
        agent = self.model.make_agents(most, asked.temperature, asked.seed)()
        try:
            replies: Sequence[Reply] | None = await await_unless_gone(request, agent.propose(observation))
        except (AgentFault, TemplateError) as error:  # the dialogue is too long, or the model's template takes none like it
            raise BadRequest(400, replace_surrogates(str(error))) from None
        if replies is None:
            return Response(status_code=499)
        (reply,) = replies
        tokens = reply.prompt_tokens, reply.tokens
        return completion_response(self.model.name, completion_message(reply), asked.stream, tokens, reply.tokens >= most)
