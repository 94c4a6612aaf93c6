"""The agent's tools: their schemas, the checks of parameter names, and the envelope around each result.

One tool searches the documentation of clusters, which has the form of passages (BM25).

Invariants:
- `call_tool` never raises on an agent's arguments.
- A call whose envelope has a code other than 200 has changed nothing.
- No number from `MOST_NUMBER` on, and no infinity, reaches a home. So sums and products of values stay finite.
- In strict mode the agent sees a refusal as an HTTP client does: the status class and the URL, but no reason.
- Passages are ASCII and have at most 1000 characters; a query gives the same passages in every process.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from http import HTTPStatus
from types import NoneType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from homerl.envs.core.documents import read_yaml
from homerl.envs.core.world import why_action_too_large
from homerl.envs.simuhome.sim import home_loading as load
from homerl.envs.simuhome.sim import service
from homerl.envs.simuhome.sim import virtual_time as workflows
from homerl.envs.simuhome.sim.device_catalogue import CATALOGUE, REQUIRED, Cluster, all_clusters
from homerl.envs.simuhome.sim.episode_file import TICK_INTERVALS
from homerl.envs.simuhome.sim.home import MatterHome, OperationError, error_envelope, refuse_unless

if TYPE_CHECKING:
    from rank_bm25 import BM25Plus


MAX_PASSAGE_LENGTH = 1000
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")


class SearchError(Exception):
    """The query or the number of results cannot be used."""


def _index_words(text: str) -> list[str]:
    """The words of a text in lower case. A compound name gives itself and its parts: `OnOff` gives onoff, on, off."""
    joined = re.findall(r"[A-Za-z0-9]+", text)
    return [word.lower() for name in joined for word in dict.fromkeys((name, *_WORD.findall(name)))]


@lru_cache(maxsize=1)
def documentation_passages() -> tuple[str, ...]:
    """All passages, cluster by cluster."""
    written = read_yaml(CATALOGUE / "documents.yaml").data
    return tuple(text for name, cluster in all_clusters().items() for text in _cluster_passages(cluster, written[name]))


def _cluster_passages(cluster: Cluster, summary: str) -> list[str]:
    """The passages of one cluster: the summary, then its attributes and commands from the catalogue."""
    attributes = [f"{name}{' (writable)' if name in cluster.writable else ''}" for name in cluster.attributes]
    lines = [f"{cluster.name} attributes: {', '.join(attributes)}."]
    commands = []
    for command, parameters in cluster.commands.items():
        named = (f"{name}{'' if default == REQUIRED else ' optional'}" for name, default in parameters.items())
        commands.append(f"{command}({', '.join(named)})")
    if commands:
        lines.append(f"{cluster.name} commands: {', '.join(commands)}.")
    texts = [f"{cluster.name} cluster. {' '.join(summary.split())}"]
    for line in lines:
        if len(texts[-1]) + len(line) < MAX_PASSAGE_LENGTH:
            texts[-1] += "\n" + line
        else:
            texts.append(line[:MAX_PASSAGE_LENGTH])
    return texts


@lru_cache(maxsize=1)
def _search_index() -> BM25Plus:
    from rank_bm25 import BM25Plus  # imported at the first search, because few agents search

    return BM25Plus([_index_words(text) for text in documentation_passages()])


def search_passages(query: Any, top_k: Any) -> str:
    """The `top_k` best passages, best first, separated by empty lines.

    The result is empty if the documentation has no word of the query. Raises `SearchError` unless `query` is a text and
    `top_k` an integer from 1.
    """
    if not isinstance(query, str) or not isinstance(top_k, int) or isinstance(top_k, bool) or top_k < 1:
        raise SearchError("query is a text and top_k an integer from 1")
    asked, index = _index_words(query), _search_index()
    scores, wanted = index.get_scores(asked), set(asked)
    holding = [number for number, counts in enumerate(index.doc_freqs) if wanted & counts.keys()]
    best = sorted(holding, key=lambda number: (-scores[number], number))[:top_k]
    return "\n\n".join(documentation_passages()[number] for number in best)


MOST_NUMBER = 2**63  # the released program would end itself, or its connection, on larger ones
LONGEST_PART = 2_000  # characters of an argument in a URL
BASE_URL = "http://127.0.0.1:8000/api"
Arguments = Mapping[str, Any]
ANY = ("boolean", "integer", "number", "string", "array", "object", "null")


@dataclass(frozen=True)
class SimuHomeTool:
    """A tool of the agent.

    `route` is its path in the released program's HTTP service. `query` says that the URL also carries the arguments as
    a query string. `checked` says that parameter names are checked before the call.
    """

    name: str
    description: str
    act: Callable[[MatterHome, Arguments], Any]
    route: str
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    optional: tuple[str, ...] = ()
    query: bool = False
    checked: bool = True

    def __reduce__(self) -> tuple[Any, ...]:
        return _tool_by_name, (self.name,)  # every process has the same tools

    @cached_property
    def required_parameters(self) -> tuple[str, ...]:
        """The names of the parameters that must be given."""
        return tuple(name for name in self.parameters if name not in self.optional)

    def function_schema(self) -> dict[str, Any]:
        """The tool as an OpenAI function schema."""
        properties = {name: dict(schema) for name, schema in self.parameters.items()}
        parameters = {"type": "object", "properties": properties, "required": list(self.required_parameters)}
        function = {"name": self.name, "description": self.description, "parameters": parameters}
        return {"type": "function", "function": function}

    def request_url(self, arguments: Arguments) -> str:
        """The URL that a client of the released program's service would request."""
        given = {name: str(part)[:LONGEST_PART] for name, part in arguments.items() if name in self.parameters}
        path = self.route.format_map({key: quote(value, safe="", errors="replace") for key, value in given.items()})
        return f"{BASE_URL}{path}" + (f"?{urlencode(given, errors='replace')}" if self.query and given else "")


def call_tool(home: MatterHome, name: str, arguments: Arguments) -> dict[str, Any]:
    """Call a tool by name. The result is the envelope that the released program gives the agent."""
    tool = TOOLS.get(name)
    if tool is None:
        return {"error": f"Unknown tool '{name}'"}
    if excess := why_action_too_large(arguments):
        return error_envelope(400, "VALIDATION_ERROR", "OUT_OF_RANGE", excess)
    if tool.checked and arguments.keys() != tool.parameters.keys():
        if missing := [parameter for parameter in tool.required_parameters if parameter not in arguments]:
            detail = f"Missing required arguments: {', '.join(missing)}"
            return error_envelope(400, "VALIDATION_ERROR", "MISSING_PARAMETERS", detail)
        foreign = [str(parameter) for parameter in arguments if parameter not in tool.parameters]
        if tool.required_parameters and foreign:  # without required parameters, the released program ignores foreign ones
            detail = f"Invalid parameters: {', '.join(foreign)}. Allowed: {', '.join(sorted(tool.parameters))}"
            return error_envelope(400, "VALIDATION_ERROR", "INVALID_PARAMETERS", detail)
    if excess := why_number_too_large(arguments):
        return error_envelope(400, "VALIDATION_ERROR", "OUT_OF_RANGE", excess)
    if not tool.checked and "device_id" not in arguments:
        return {"error": "'device_id'"}
    try:
        limit = home.plan.max_ticks
        refuse_unless(limit is None or home.tick < limit, "CONNECTION_ERROR", "the home's time is up")
        return {"status": {"code": 200, "message": "OK"}, "data": tool.act(home, arguments), "error": None}
    except SearchError as error:
        return error_envelope(500, "INTERNAL_ERROR", "INTERNAL_ERROR", str(error))
    except OperationError as failure:
        status = failure.http_status
        if not home.plan.strict:
            return error_envelope(status, failure.type, failure.type, failure.detail or failure.label)
        # The client of the released program sees only the HTTP status and the URL; the reason stays on the server.
        side, url = "Client" if status < 500 else "Server", tool.request_url(arguments)
        detail = f"{status}: {status} {side} Error: {HTTPStatus(status).phrase} for url: {url}"
        return error_envelope(400, "HTTP_ERROR", "HTTP_ERROR", detail)


def why_number_too_large(value: Any) -> str | None:
    """Why a number in a value, or at any depth of it, is larger than any that a home takes; None if there is none."""
    if isinstance(value, (int, float)):
        return None if -MOST_NUMBER < value < MOST_NUMBER else "a number is finite and smaller than 2 to the power of 63"
    for inner in value.values() if isinstance(value, (dict, Mapping)) else value if isinstance(value, list) else ():
        if not isinstance(inner, (str, bool, NoneType)) and (found := why_number_too_large(inner)):
            return found
    return None


def is_refused(result: Mapping[str, Any]) -> bool:
    """Whether the result of a call is a refusal."""
    return result.get("error") is not None


def _bind(function: Callable[..., Any], *names: str) -> Callable[[MatterHome, Arguments], Any]:
    """What a tool does: call a function with the home and these arguments, in order."""
    return lambda home, arguments: function(home, *(arguments[name] for name in names))


def _bind_device(function: Callable[..., Any]) -> Callable[[MatterHome, Arguments], Any]:
    """What a tool for one device does: call a function with the arguments as the service's schema coerces them."""

    def act(home: MatterHome, arguments: Arguments) -> Any:
        # A URL without the device's id leads nowhere, whatever is sent there.
        refuse_unless(arguments["device_id"] != "", "DEVICE_NOT_FOUND", "device_id is empty")
        return function(home, **service.coerced_arguments(arguments))

    return act


TEXT = {"type": "string"}
DEVICE = {"type": "string", "description": "the device's id"}
ENDPOINT: Mapping[str, Any] = {
    "type": "integer", "minimum": 0, "maximum": 65_535, "description": "the endpoint that holds the cluster",
}  # fmt: skip
CLUSTER = {"type": "string", "description": "the cluster's name"}
TIME = {"type": "string", "description": "YYYY-MM-DD HH:MM:SS"}
ROOM = {"type": "string", "description": "the room's id"}
FLOW = {"type": "string", "description": "the workflow's id"}
STEP = {
    "type": "object",
    "properties": {
        "tool": {"type": "string", "enum": list(workflows.STEP_KEYS)},
        "args": {"type": "object", "description": "the tool's arguments"},
    },
    "required": ["tool", "args"],
}
PLACE = {"device_id": DEVICE, "endpoint_id": ENDPOINT, "cluster_id": CLUSTER}

ALL_TOOLS = (
    SimuHomeTool("get_rooms", "List the rooms of the home.", _bind(service.list_rooms), "/rooms"),
    SimuHomeTool(
        "get_room_devices", "List the devices of a room with their types.",
        _bind(service.room_devices, "room_id"), "/rooms/{room_id}/devices", {"room_id": ROOM},
    ),
    SimuHomeTool(
        "get_room_states", "Read a room's temperature, humidity (both in hundredths), illuminance (lux) and PM10.",
        _bind(service.room_states, "room_id"), "/rooms/{room_id}/states", {"room_id": ROOM},
    ),
    SimuHomeTool("get_home_state", "Read the whole home: time, rooms, devices.", _bind(service.home_state), "/home/state"),
    SimuHomeTool(
        "get_device_structure", "Read a device's endpoints, clusters, typed attributes and commands.",
        _bind(service.device_structure, "device_id"), "/devices/{device_id}/structure", {"device_id": DEVICE}, checked=False,
    ),
    SimuHomeTool(
        "get_all_attributes", "Read all attributes of a device.",
        _bind(service.all_attributes, "device_id"), "/devices/{device_id}/attributes", {"device_id": DEVICE},
    ),
    SimuHomeTool(
        "get_attribute", "Read one attribute of a device.",
        _bind(service.read_attribute, "device_id", "endpoint_id", "cluster_id", "attribute_id"),
        "/devices/{device_id}/attributes/{endpoint_id}/{cluster_id}/{attribute_id}", {**PLACE, "attribute_id": TEXT},
    ),
    SimuHomeTool(
        "execute_command", "Run a command of a cluster of a device.",
        _bind_device(service.execute_command), "/devices/{device_id}/commands",
        {**PLACE, "command_id": TEXT, "args": {"type": "object", "description": "the command's arguments, {} for none"}},
    ),
    SimuHomeTool(
        "write_attribute", "Set an attribute of a device.",
        _bind_device(service.write_attribute), "/devices/{device_id}/attributes/write",
        {**PLACE, "attribute_id": TEXT, "value": {"type": list(ANY), "description": "the new value"}},
    ),
    SimuHomeTool(
        "schedule_workflow", "Register steps to be done in order at a virtual time to come. They are not checked.",
        _bind(workflows.schedule_workflow, "start_time", "steps"), "/schedule/workflow",
        {"start_time": TIME, "steps": {"type": "array", "items": STEP, "minItems": 1}},
    ),
    SimuHomeTool(
        "get_workflow_status", "Read how far a workflow has come.",
        _bind(workflows.workflow_status, "workflow_id"), "/schedule/workflow/{workflow_id}/status", {"workflow_id": FLOW},
    ),
    SimuHomeTool(
        "get_workflow_list", "List workflows, all or some.",
        lambda home, arguments: workflows.list_workflows(home, *map(arguments.get, ("status", "from_time", "to_time"))),
        "/schedule/workflows",
        {"status": {"type": "string", "enum": list(workflows.STATUSES)}, "from_time": TIME, "to_time": TIME},
        optional=("status", "from_time", "to_time"), query=True,
    ),
    SimuHomeTool(
        "cancel_workflow", "Cancel a workflow that is still to come.",
        _bind(workflows.cancel_workflow, "workflow_id"), "/schedule/workflow/{workflow_id}/cancel", {"workflow_id": FLOW},
    ),
    SimuHomeTool("get_current_time", "Read the virtual time.", lambda home, _: {"now": home.clock_text}, "/time"),
    SimuHomeTool(
        "get_environment_control_rules", "Read which devices move a room variable, and how.",
        _bind(service.control_rules, "state"), "/environment/control_rules/{state}",
        {"state": {"type": "string", "enum": ["temperature", "humidity", "air_quality", "illuminance"]}}, query=True,
    ),
    SimuHomeTool(
        "get_cluster_doc", "Search what is written about clusters, their attributes and commands.",
        lambda home, arguments: {"text": search_passages(arguments["query"], arguments["top_k"])}, "",
        {"query": TEXT, "top_k": {"type": "integer", "minimum": 1, "maximum": 100, "description": "how many passages"}},
    ),
    SimuHomeTool(
        "add_device", "Put a new device in a room.",
        _bind(load.add_device, "room_id", "device_type", "device_id"), "/devices/add",
        {"room_id": ROOM, "device_type": TEXT, "device_id": DEVICE},
    ),
    SimuHomeTool(
        "remove_device", "Take a device out of the home.",
        _bind(load.remove_device, "device_id"), "/devices/{device_id}", {"device_id": DEVICE},
    ),
    SimuHomeTool(
        "set_tick_interval", "Set how many virtual seconds a tick takes.",
        _bind(load.set_tick_interval, "tick_interval"), "/simulation/tick_interval",
        {"tick_interval": {"type": "number", "description": "above 0", **TICK_INTERVALS}},
    ),
    SimuHomeTool("finish", "End the task with an answer to the user.", lambda home, _: None, "", {"answer": TEXT}),
)  # fmt: skip
TOOLS = {tool.name: tool for tool in ALL_TOOLS}


def _tool_by_name(name: str) -> SimuHomeTool:
    return TOOLS[name]


TOOLSETS = {
    "released": tuple(TOOLS),
    "paper": (
        "finish", "execute_command", "write_attribute", "get_all_attributes", "get_attribute", "get_device_structure",
        "get_rooms", "get_room_devices", "get_room_states", "get_cluster_doc", "schedule_workflow", "get_current_time",
        "get_workflow_list",
    ),
}  # fmt: skip
