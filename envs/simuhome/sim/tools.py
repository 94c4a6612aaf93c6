"""The documentation of clusters, in passages, and a search in it (BM25).

Invariants: passages are ASCII and have at most 1000 characters; a query gives the same passages in every process.

The agent's tools: their schemas, the checks of parameter names, and the envelope around each result.

Invariants:
- `call_tool` never raises on an agent's arguments.
- A call whose envelope has a code other than 200 has changed nothing.
- No number from `MOST_NUMBER` on, and no infinity, reaches a home: sums and products of what does can be represented.
- In strict mode the agent sees of a refusal what an HTTP client sees: the status class and the URL, but no reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from types import NoneType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from homerl.envs.core.documents import read_yaml
from homerl.envs.core.world import why_action_too_large
from homerl.envs.simuhome.sim import home_loading as load
from homerl.envs.simuhome.sim import service
from homerl.envs.simuhome.sim import service as queries
from homerl.envs.simuhome.sim import virtual_time as workflows
from homerl.envs.simuhome.sim.device_catalogue import CATALOGUE, REQUIRED, Cluster, all_clusters
from homerl.envs.simuhome.sim.episode_file import TICK_INTERVALS
from homerl.envs.simuhome.sim.home import MatterHome
from homerl.envs.simuhome.sim.operation_results import (
    OperationError,
    error_envelope,
    http_error_envelope,
    plain_error_envelope,
    refuse_unless,
    success_envelope,
)

if TYPE_CHECKING:
    from rank_bm25 import BM25Plus


MAX_PASSAGE_LENGTH = 1000
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")


class SearchError(Exception):
    """The query or the number of results cannot be used."""


def index_words(text: str) -> list[str]:
    """The words of a text in lower case. A compound name gives itself and its parts: `OnOff` gives onoff, on, off."""
    joined = re.findall(r"[A-Za-z0-9]+", text)
    return [word.lower() for name in joined for word in dict.fromkeys((name, *_WORD.findall(name)))]


@lru_cache(maxsize=1)
def documentation_passages() -> tuple[str, ...]:
    """All passages, cluster by cluster."""
    written = read_yaml(CATALOGUE / "documents.yaml").data
    return tuple(text for name, cluster in all_clusters().items() for text in _passages_of(cluster, written[name]))


def _passages_of(cluster: Cluster, summary: str) -> list[str]:
    """The passages of one cluster: the summary, then its attributes and commands from the catalogue."""
    attributes = [f"{name}{' (writable)' if name in cluster.writable else ''}" for name in cluster.attributes]
    lines = [f"{cluster.name} attributes: {', '.join(attributes)}."]
    commands = [
        f"{name}({', '.join(_parameter(*one) for one in given.items())})" for name, given in cluster.commands.items()
    ]
    if commands:
        lines.append(f"{cluster.name} commands: {', '.join(commands)}.")
    texts = [f"{cluster.name} cluster. {' '.join(summary.split())}"]
    for line in lines:
        if len(texts[-1]) + len(line) < MAX_PASSAGE_LENGTH:
            texts[-1] += "\n" + line
        else:
            texts.append(line[:MAX_PASSAGE_LENGTH])
    return texts


def _parameter(name: str, default: Any) -> str:
    return name if default == REQUIRED else f"{name} optional"


@lru_cache(maxsize=1)
def _index() -> BM25Plus:
    from rank_bm25 import BM25Plus  # imported at the first search, because few agents search

    return BM25Plus([index_words(text) for text in documentation_passages()])


def search_passages(query: Any, top_k: Any) -> str:
    """The `top_k` best passages, best first, separated by empty lines.

    The result is empty if the documentation has no word of the query. Raises `SearchError` unless `query` is a text and
    `top_k` an integer from 1.
    """
    if not isinstance(query, str) or not isinstance(top_k, int) or isinstance(top_k, bool) or top_k < 1:
        raise SearchError("query is a text and top_k an integer from 1")
    asked = index_words(query)
    known = {word for word in asked if word in _index().idf}
    if not known:
        return ""
    scores = _index().get_scores(asked)
    holding = [number for number, counts in enumerate(_index().doc_freqs) if known & counts.keys()]
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
        return _known, (self.name,)  # every process has the same tools

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

    def request_url(self, arguments: Arguments, base: str) -> str:
        """The URL that a client of the released program's service would request."""
        given = {name: str(part)[:LONGEST_PART] for name, part in arguments.items() if name in self.parameters}
        path = self.route.format_map({key: quote(value, safe="", errors="replace") for key, value in given.items()})
        return f"{base}{path}" + (f"?{urlencode(given, errors='replace')}" if self.query and given else "")

    def check_parameter_names(self, arguments: Arguments) -> dict[str, Any] | None:
        """The refusal of a call that lacks a required parameter or has an unknown one, or None.

        Tools without required parameters ignore unknown ones, as in the released program.
        """
        if not self.checked or arguments.keys() == self.parameters.keys():
            return None
        if missing := [name for name in self.required_parameters if name not in arguments]:
            detail = f"Missing required arguments: {', '.join(missing)}"
            return error_envelope(400, "VALIDATION_ERROR", "MISSING_PARAMETERS", detail)
        foreign = [str(name) for name in arguments if name not in self.parameters]
        if self.required_parameters and foreign:
            detail = f"Invalid parameters: {', '.join(foreign)}. Allowed: {', '.join(sorted(self.parameters))}"
            return error_envelope(400, "VALIDATION_ERROR", "INVALID_PARAMETERS", detail)
        return None


def call_tool(home: MatterHome, name: str, arguments: Arguments, base_url: str = BASE_URL) -> dict[str, Any]:
    """Call a tool by name. The result is the envelope that the released program gives the agent."""
    tool = TOOLS.get(name)
    if tool is None:
        return {"error": f"Unknown tool '{name}'"}
    if excess := why_action_too_large(arguments):
        return error_envelope(400, "VALIDATION_ERROR", "OUT_OF_RANGE", excess)
    if refused := tool.check_parameter_names(arguments):
        return refused
    if excess := why_number_too_large(arguments):
        return error_envelope(400, "VALIDATION_ERROR", "OUT_OF_RANGE", excess)
    if not tool.checked and "device_id" not in arguments:
        return {"error": "'device_id'"}
    try:
        limit = home.plan.max_ticks
        refuse_unless(limit is None or home.tick < limit, "CONNECTION_ERROR", "the home's time is up")
        return success_envelope(tool.act(home, arguments))
    except SearchError as error:
        return error_envelope(500, "INTERNAL_ERROR", "INTERNAL_ERROR", str(error))
    except OperationError as failure:
        return (
            http_error_envelope(failure, tool.request_url(arguments, base_url))
            if home.plan.strict
            else plain_error_envelope(failure)
        )


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
    return "error" in result and result["error"] is not None


def _read(function: Callable[..., Any], *names: str) -> Callable[[MatterHome, Arguments], Any]:
    return lambda home, arguments: function(home, *(arguments[name] for name in names))


def _execute(home: MatterHome, arguments: Arguments) -> Any:
    return service.execute_command(home, **_addressed(arguments))


def _write(home: MatterHome, arguments: Arguments) -> Any:
    return service.write_attribute(home, **_addressed(arguments))


def _addressed(arguments: Arguments) -> dict[str, Any]:
    """The coerced arguments of a call to a device. A URL without the device's id leads nowhere, whatever is sent there."""
    refuse_unless(arguments["device_id"] != "", "DEVICE_NOT_FOUND", "device_id is empty")
    return service.coerced_arguments(arguments)


def _list(home: MatterHome, arguments: Arguments) -> Any:
    return workflows.list_workflows(home, *(arguments.get(name) for name in ("status", "from_time", "to_time")))


TEXT = {"type": "string"}
DEVICE = {"type": "string", "description": "the device's id"}
ENDPOINT: Mapping[str, Any] = {
    "type": "integer",
    "minimum": 0,
    "maximum": 65_535,
    "description": "the endpoint that holds the cluster",
}
CLUSTER = {"type": "string", "description": "the cluster's name"}
TIME = {"type": "string", "description": "YYYY-MM-DD HH:MM:SS"}
ROOM = {"type": "string", "description": "the room's id"}
FLOW = {"type": "string", "description": "the workflow's id"}
STEP = {
    "type": "object",
    "properties": {
        "tool": {"type": "string", "enum": ["execute_command", "write_attribute"]},
        "args": {"type": "object", "description": "the tool's arguments"},
    },
    "required": ["tool", "args"],
}
PLACE = {"device_id": DEVICE, "endpoint_id": ENDPOINT, "cluster_id": CLUSTER}

ALL_TOOLS = (
    SimuHomeTool("get_rooms", "List the rooms of the home.", _read(queries.list_rooms), "/rooms"),
    SimuHomeTool(
        "get_room_devices", "List the devices of a room with their types.",
        _read(queries.room_devices, "room_id"), "/rooms/{room_id}/devices", {"room_id": ROOM},
    ),
    SimuHomeTool(
        "get_room_states", "Read a room's temperature, humidity (both in hundredths), illuminance (lux) and PM10.",
        _read(queries.room_states, "room_id"), "/rooms/{room_id}/states", {"room_id": ROOM},
    ),
    SimuHomeTool("get_home_state", "Read the whole home: time, rooms, devices.", _read(queries.home_state), "/home/state"),
    SimuHomeTool(
        "get_device_structure", "Read a device's endpoints, clusters, typed attributes and commands.",
        _read(queries.device_structure, "device_id"), "/devices/{device_id}/structure", {"device_id": DEVICE}, checked=False,
    ),
    SimuHomeTool(
        "get_all_attributes", "Read all attributes of a device.",
        _read(queries.all_attributes, "device_id"), "/devices/{device_id}/attributes", {"device_id": DEVICE},
    ),
    SimuHomeTool(
        "get_attribute", "Read one attribute of a device.",
        _read(queries.read_attribute, "device_id", "endpoint_id", "cluster_id", "attribute_id"),
        "/devices/{device_id}/attributes/{endpoint_id}/{cluster_id}/{attribute_id}", {**PLACE, "attribute_id": TEXT},
    ),
    SimuHomeTool(
        "execute_command", "Run a command of a cluster of a device.", _execute, "/devices/{device_id}/commands",
        {**PLACE, "command_id": TEXT, "args": {"type": "object", "description": "the command's arguments, {} for none"}},
    ),
    SimuHomeTool(
        "write_attribute", "Set an attribute of a device.", _write, "/devices/{device_id}/attributes/write",
        {**PLACE, "attribute_id": TEXT, "value": {"type": list(ANY), "description": "the new value"}},
    ),
    SimuHomeTool(
        "schedule_workflow", "Register steps to be done in order at a virtual time to come. They are not checked.",
        _read(workflows.schedule_workflow, "start_time", "steps"), "/schedule/workflow",
        {"start_time": TIME, "steps": {"type": "array", "items": STEP, "minItems": 1}},
    ),
    SimuHomeTool(
        "get_workflow_status", "Read how far a workflow has come.",
        _read(workflows.workflow_status, "workflow_id"), "/schedule/workflow/{workflow_id}/status", {"workflow_id": FLOW},
    ),
    SimuHomeTool(
        "get_workflow_list", "List workflows, all or some.", _list, "/schedule/workflows",
        {"status": {"type": "string", "enum": list(workflows.STATUSES)}, "from_time": TIME, "to_time": TIME},
        optional=("status", "from_time", "to_time"), query=True,
    ),
    SimuHomeTool(
        "cancel_workflow", "Cancel a workflow that is still to come.",
        _read(workflows.cancel_workflow, "workflow_id"), "/schedule/workflow/{workflow_id}/cancel", {"workflow_id": FLOW},
    ),
    SimuHomeTool("get_current_time", "Read the virtual time.", lambda home, _: {"now": home.clock_text}, "/time"),
    SimuHomeTool(
        "get_environment_control_rules", "Read which devices move a room variable, and how.",
        _read(queries.control_rules, "state"), "/environment/control_rules/{state}",
        {"state": {"type": "string", "enum": ["temperature", "humidity", "air_quality", "illuminance"]}}, query=True,
    ),
    SimuHomeTool(
        "get_cluster_doc", "Search what is written about clusters, their attributes and commands.",
        lambda home, arguments: {"text": search_passages(arguments["query"], arguments["top_k"])}, "",
        {"query": TEXT, "top_k": {"type": "integer", "minimum": 1, "maximum": 100, "description": "how many passages"}},
    ),
    SimuHomeTool(
        "add_device", "Put a new device in a room.",
        _read(load.add_device, "room_id", "device_type", "device_id"), "/devices/add",
        {"room_id": ROOM, "device_type": TEXT, "device_id": DEVICE},
    ),
    SimuHomeTool(
        "remove_device", "Take a device out of the home.",
        _read(load.remove_device, "device_id"), "/devices/{device_id}", {"device_id": DEVICE},
    ),
    SimuHomeTool(
        "set_tick_interval", "Set how many virtual seconds a tick takes.",
        _read(load.set_tick_interval, "tick_interval"), "/simulation/tick_interval",
        {"tick_interval": {"type": "number", "description": "above 0", **TICK_INTERVALS}},
    ),
    SimuHomeTool("finish", "End the task with an answer to the user.", lambda home, _: None, "", {"answer": TEXT}),
)  # fmt: skip
TOOLS = {tool.name: tool for tool in ALL_TOOLS}


def _known(name: str) -> SimuHomeTool:
    return TOOLS[name]


TOOLSETS = {
    "released": tuple(TOOLS),
    "paper": (
        "finish", "execute_command", "write_attribute", "get_all_attributes", "get_attribute", "get_device_structure",
        "get_rooms", "get_room_devices", "get_room_states", "get_cluster_doc", "schedule_workflow", "get_current_time",
        "get_workflow_list",
    ),
}  # fmt: skip
