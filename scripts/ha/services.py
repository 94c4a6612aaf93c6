"""Records of service calls: what each call did to its entity, right after it and once the entity had settled.

Entities get their calls side by side, for a cover takes seconds; one entity gets them one after the other. Calls that reach
other entities come last, one by one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import httpx
import yaml
from pydantic import SecretStr

from ha.normal import RANDOM
from homerl.envs.assistant.listing.home_listing import entity_domain
from homerl.envs.assistant.listing.homeassistant_client import HomeAssistantClient, HomeAssistantError, connect_client

Calls = list[tuple[str, dict[str, Any]]]  # services with their data

CALLS: dict[str, Calls] = yaml.safe_load((Path(__file__).parent / "services.yaml").read_text("utf-8"))
PASSIVE = frozenset("air_quality calendar camera conversation device_tracker event person stt sun tts update zone".split())
EVERY = [("homeassistant.turn_off", {}), ("homeassistant.turn_on", {}), ("homeassistant.toggle", {})]
ENDS = 3.0  # seconds after which the scripts of our homes have ended
RETURNING = {"get_forecasts", "get_items", "get_schedule"}  # services that answer
WIDE = {"scene", "script"}
WITHOUT = {"reload", "browse_media", "search_media", "delete", "trigger"}  # of no home, or of a person at a screen
STRAY = [
    ("light.no_such_light", "light.turn_on", {}),
    ("switch.ac", "light.turn_on", {}),
    ("light.bed_light", "light.glow", {}),
    ("light.bed_light", "lamp.turn_on", {}),
]
MOVING = {"arming", "closing", "locking", "opening", "pending", "returning", "unlocking"}
SLOW = ("alarm_control_panel.", "cover.", "lawn_mower.", "lock.", "vacuum.", "valve.")
RESTLESS = (*RANDOM, "conversation.", "sun.")  # change by themselves
PATIENCE, PAUSE, QUIET = 45.0, 0.5, 4  # seconds; seconds between looks; looks without a change (covers move each second)

States = dict[str, dict[str, Any]]
T = TypeVar("T")


async def services(
    url: str, token: SecretStr, http: httpx.AsyncClient, client: HomeAssistantClient, apart: bool = False
) -> list[dict[str, Any]]:
    """Every call with its outcome, by entity. `apart`: one entity after the other, where they drive each other."""
    named = [state for state in await client.read_states() if not state["entity_id"].startswith(RANDOM)]
    plan = {state["entity_id"]: await _plan(client, state) for state in sorted(named, key=lambda state: state["entity_id"])}
    narrow = [_calls(url, token, http, entity, calls) for entity, calls in plan.items() if entity_domain(entity) not in WIDE]
    by_entity = [await one for one in narrow] if apart else await asyncio.gather(*narrow)
    done = [call for calls in by_entity for call in calls]
    wide = [(entity, *call) for entity, calls in plan.items() if entity_domain(entity) in WIDE for call in calls]
    return done + [await _wide_call(client, *call) for call in [*wide, *STRAY]]


async def _plan(client: HomeAssistantClient, state: Mapping[str, Any]) -> Calls:
    """The calls of an entity: those of its domain, those that nobody named, and those of every entity."""
    entity, domain = state["entity_id"], entity_domain(state["entity_id"])
    if domain in PASSIVE:
        return []
    forms = CALLS.get(domain, ())
    calls = [(f"{domain}.{name}", data) for name, form in forms for data in _filled(form, state["attributes"])]
    named = {service for service, _ in calls} | {service for service, _ in EVERY}
    offered = sorted(await client.call_command("get_services_for_target", target={"entity_id": [entity]}))
    rest = [(service, {}) for service in offered if service not in named and service.partition(".")[2] not in WITHOUT]
    ours = [(service, data) for service, data in rest if entity_domain(service) == domain]
    return calls + ours + (EVERY if calls else [])


def _filled(form: Mapping[str, Any], attributes: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The data of a form, with `$name` replaced by the attribute's first and last entry."""
    asked = [(key, str(value)[1:]) for key, value in form.items() if str(value).startswith("$")]
    if not asked:
        yield dict(form)
        return
    ((key, name),) = asked
    entries = list(attributes.get(name) or ())
    for entry in dict.fromkeys([*entries[:1], *entries[-1:]]):
        yield {**form, key: entry}


async def _calls(url: str, token: SecretStr, http: httpx.AsyncClient, entity: str, calls: Calls) -> list[dict[str, Any]]:
    """One entity's calls in turn, over a connection of its own."""
    if not calls:
        return []
    async with connect_client(url, token) as client:
        return [await _call(client, http, entity, service, data) for service, data in calls]


async def _call(
    client: HomeAssistantClient, http: httpx.AsyncClient, entity: str, service: str, data: dict[str, Any]
) -> dict[str, Any]:
    before = await _state(http, entity)
    outcome = await _outcome(client, entity, service, data)
    after = await _state(http, entity)
    end = after
    if entity.startswith(SLOW):
        end = await _look_until_quiet(lambda: _state(http, entity), after, lambda now: {now["state"]})
    call = {"entity": entity, "service": service, "data": data, "outcome": outcome, "before": before, "after": after}
    return call if end == after else call | {"settled": end}


async def _wide_call(client: HomeAssistantClient, entity: str, service: str, data: dict[str, Any]) -> dict[str, Any]:
    """A call that may reach other entities, with all that it changed."""
    before = await states(client)
    outcome = await _outcome(client, entity, service, data)
    await asyncio.sleep(ENDS)  # a script works on after the call
    changed = changes(before, await settled(client, before))
    return {"entity": entity, "service": service, "data": data, "outcome": outcome, "changed": changed}


async def _outcome(client: HomeAssistantClient, entity: str, service: str, data: dict[str, Any]) -> dict[str, Any]:
    domain, _, name = service.partition(".")
    try:
        said = await client.call_service(domain, name, data, {"entity_id": entity}, returns=name in RETURNING)
    except HomeAssistantError as error:
        return {"code": error.code, "error": error.said}
    return {"ok": True} | ({"response": said} if name in RETURNING else {})


async def _state(http: httpx.AsyncClient, entity: str) -> dict[str, Any]:
    state = (await http.get(f"/api/states/{entity}")).raise_for_status().json()
    return {key: state[key] for key in ("state", "attributes")}


async def states(client: HomeAssistantClient) -> States:
    """State and attributes of each entity, without those that change by themselves."""
    kept = [state for state in await client.read_states() if not state["entity_id"].startswith(RESTLESS)]
    return {state["entity_id"]: {key: state[key] for key in ("state", "attributes")} for state in kept}


def changes(before: States, after: States) -> States:
    """For each entity that differs: its state before and after."""
    return {
        entity: {"before": before.get(entity), "after": state}
        for entity, state in sorted(after.items())
        if state != before.get(entity)
    }


async def settled(client: HomeAssistantClient, before: States) -> States:
    """The states once nothing moves. It waits only if something that takes time has changed."""
    after = await states(client)
    if not any(entity.startswith(SLOW) for entity in changes(before, after)):
        return after
    return await _look_until_quiet(lambda: states(client), after, lambda now: {state["state"] for state in now.values()})


async def _look_until_quiet(look: Callable[[], Awaitable[T]], after: T, states_in: Callable[[T], set[str]]) -> T:
    """What is seen once nothing has changed or moved for a while."""
    quiet, deadline = 0, time.monotonic() + PATIENCE
    while quiet < QUIET and time.monotonic() < deadline:
        await asyncio.sleep(PAUSE)
        now = await look()
        quiet, after = (quiet + 1 if now == after and not states_in(now) & MOVING else 0), now
    return after
