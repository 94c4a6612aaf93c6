"""`homerl serve-agent`: an agent for Home Assistant."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from homerl.envs.core.documents import InputError
from homerl.host.terminal import Command, OnCpu, Served, check_option_value, console, count_with_noun

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from homerl.envs.assistant.serving.real_home import HomeAssistantHome
    from homerl.envs.homeenv.sim.home import Home
    from homerl.play.loop import Agent

WORLD = "homeenv"
UNKNOWN = {"toolset": "assist", "prompt": "full", "language": "en"}  # for a model of which nothing is known


def serve_agent(
    context: typer.Context,
    model: Annotated[str, typer.Option(help="a model's folder, or http://host/v1")],
    ha: Annotated[
        str | None, typer.Option(help="URL of Home Assistant, http://host:8123; without it, the file of --home is simulated")
    ] = None,
    mode: Annotated[str, typer.Option(help="shadow (only watches), confirm (asks before it acts), or act")] = "shadow",
    home: Annotated[Path | None, typer.Option(help="a home of `homerl import-ha`; default: it is imported")] = None,
    token_env: Annotated[str, typer.Option(help="environment variable with the token of Home Assistant")] = "HA_TOKEN",
    log: Annotated[Path, typer.Option(help="the log, to which every exchange is appended")] = Path("agent.jsonl"),
    allow: Annotated[
        list[str] | None, typer.Option(help="a guarded device that needs no consent if it is named; may be repeated")
    ] = None,
    toolset: Annotated[str | None, typer.Option(help="default: the one of the model's training, else assist")] = None,
    language: Annotated[
        str | None,
        typer.Option(help="what it speaks: en, de or zh; default: en, or German or Chinese if the home is"),
    ] = None,
    first: Annotated[
        str | None, typer.Option(help="who takes what it understands before the model: hassil, Home Assistant's matcher")
    ] = None,
    unclear: Annotated[
        str, typer.Option(help="what the words of a person may not mean: ask (before it is done), or act")
    ] = "ask",
    prompt: Annotated[str | None, typer.Option(help="brief or full; default: the one of its training, else full")] = None,
    served: Served = None,
    cpu: OnCpu = False,
    max_tokens: Annotated[int, typer.Option(min=1, help="most tokens of a message of the model")] = 512,
    steps: Annotated[
        int,
        typer.Option(min=1, help="most messages of the model for one sentence; 1 for a model that was not taught to end"),
    ] = 8,
    patience: Annotated[
        float, typer.Option(min=1, help="seconds for one sentence; what was not begun by then is not done")
    ] = 60,
    host: Annotated[str, typer.Option(help="address to listen on; others than this machine's own need a key")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="port to listen on")] = 8124,
    key_env: Annotated[str | None, typer.Option(help="environment variable with the key that clients must send")] = None,
    ingress: Annotated[str | None, typer.Option(help="address of a proxy that needs no key for the page")] = None,
) -> None:
    """Serve an agent to Home Assistant. It acts in a copy of the home first, and in the home only if the mode allows."""
    if ha is None and home is None:
        what = "name your Home Assistant: --ha http://host:8123, or a home file to try it in: --home home.json"
        raise InputError("there is no home to act in", "--ha", what)
    from homerl.envs.assistant.listing.guard_words import has_guard_words
    from homerl.envs.assistant.serving.caretaker import Caretaker, CaretakerSettings
    from homerl.envs.assistant.serving.consent import Guard
    from homerl.envs.assistant.serving.exchange_journal import MODES, AgentJournal
    from homerl.envs.assistant.serving.openai_endpoint import AgentEndpoint
    from homerl.envs.assistant.serving.simulated_home import SimulatedHome
    from homerl.host.web_server import ServerAddress, open_listening_socket, read_key_variable

    check_option_value("--mode", mode, MODES)
    check_option_value("--unclear", unclear, ("ask", "act"))
    asked = choose_prompt_settings(
        model, context.obj.trained_on(model), {"toolset": toolset, "prompt": prompt, "language": language}
    )
    address = ServerAddress(host, port, read_key_variable(key_env), ingress)
    twin, real = _find_homes(home, ha, token_env)
    for did in allow or ():
        check_option_value("--allow", did, twin.plan.devices_by_did)
    name, factory = context.obj.agents(model, served, cpu, max_tokens, patience)
    name = name if real else f"{name} (simulated home)"  # as it is in the log, too
    guard = Guard(frozenset(allow or ()))
    factory = _with_first_agent(first, factory, lambda: (real and real.spoken) or asked["language"])
    house = CaretakerSettings(
        mode,  # type: ignore[arg-type]
        guard=guard,
        ask_unclear=unclear == "ask",
        steps=steps,
        patience=patience,
        **asked,  # type: ignore[arg-type]
    )
    caretaker = Caretaker(twin, factory, real or SimulatedHome(), AgentJournal(log), house, name)
    socket = open_listening_socket(address)
    console.print(
        f"{name} in the mode {mode} for {count_with_noun(len(twin.plan.devices), 'device')}: {address.base_url}/v1"
    )
    if not has_guard_words(caretaker.spoken_language):
        console.print(
            f"what doors and stoves are called in '{caretaker.spoken_language}' is not known here, so each switch asks "
            "unless its device class is outlet, or --allow names it"
        )
    if real is None:
        console.print(f"{home} is simulated: no real home is touched")
    console.print(f"what it does: {address.base_url}/ (log: {log})")
    app = AgentEndpoint(caretaker, address).build_agent_app()
    asyncio.run(_serve_and_follow(app, socket, real, caretaker.heard_languages))


def choose_prompt_settings(
    model: str, recipes: Sequence[Mapping[str, Any]], wanted: Mapping[str, str | None]
) -> dict[str, str]:
    """The `toolset`, `prompt` and `language` of a model: those of the first of its recipes with all that is wanted.

    A model of which nothing is known is asked as is wanted. Raises `InputError` if it was trained with others alone.
    """
    from homerl.envs.homeenv.sim.toolsets import TOOLSETS
    from homerl.envs.homeenv.tasks.blueprint import PromptName

    given = {key: value for key, value in wanted.items() if value is not None}
    for key, possible in (("toolset", TOOLSETS), ("prompt", get_args(PromptName))):
        if key in given:
            check_option_value(f"--{key}", given[key], possible)
    ways = []  # how models of recipes, or of one blueprint, were asked
    for recipe in recipes:
        if recipe.get("world") in (None, WORLD):
            spoken = recipe.get("language") or (recipe.get("home") or {}).get("language") or "en"
            own = {"toolset": recipe.get("toolset") or "homeflow", "prompt": recipe.get("prompt") or "brief"}
            ways.append(own | {"language": spoken})
    if not ways:
        return UNKNOWN | given
    for way in ways:
        if given.items() <= way.items():
            return way
    known = "; ".join(dict.fromkeys(" ".join(f"--{key} {way[key]}" for key in given) for way in ways))
    raise InputError(
        f"{model} was trained otherwise: {known}", ", ".join(f"--{key} {given[key]}" for key in given), "leave it out"
    )


async def _serve_and_follow(app: Any, socket: Any, real: HomeAssistantHome | None, languages: Sequence[str]) -> None:
    """Serve until stopped, and follow the real home meanwhile. The words of languages are read before they are needed."""
    from homerl.envs.assistant.serving.kind_words import kind_words
    from homerl.host.web_server import serve_until_stopped

    following: list[asyncio.Task[Any]] = [asyncio.create_task(asyncio.to_thread(kind_words, one)) for one in languages]
    following += [asyncio.create_task(real.follow_home())] if real else []
    try:
        await serve_until_stopped(app, socket)
    finally:
        for task in following:
            task.cancel()


def _with_first_agent(first: str | None, agents: Callable[[], Agent], spoken: Callable[[], str]) -> Callable[[], Agent]:
    """Agents that ask the matcher first, if one is named. Raises `InputError` if there is none for the language of now.

    If the home tells later that it speaks a language without one, the agents are asked alone.
    """
    if first is None:
        return agents
    check_option_value("--first", first, ("hassil",))
    from homerl.envs.assistant.first import MatcherFirst
    from homerl.envs.homeenv.tasks.sentences.matching import load_hassil_sentences

    load_hassil_sentences(spoken())

    def agent() -> Agent:
        try:
            load_hassil_sentences(language := spoken())
        except InputError as error:
            logging.getLogger(__name__).warning("%s", error)
            return agents()
        return MatcherFirst(agents(), language)

    return agent


def _find_homes(file: Path | None, url: str | None, token_env: str) -> tuple[Home, HomeAssistantHome | None]:
    """The twin, and the real home, or None without a `url`; then there is a `file`. Raises `InputError`."""
    from homerl.envs.homeenv.sim.home_file import load_home

    twin = load_home(file) if file else None
    if url is None:
        assert twin is not None
        return twin, None

    from homerl.envs.assistant.home_import import fetch_listing, import_home
    from homerl.envs.assistant.listing.homeassistant_client import HomeAssistantError, HomeAssistantUnreachable, read_token
    from homerl.envs.assistant.serving.real_home import HomeAssistantHome

    try:
        real = HomeAssistantHome(url, read_token(token_env))
        known = asyncio.run(real.read_known_entities())
    except HomeAssistantUnreachable as error:
        if file is None:
            raise InputError(str(error)) from None
        console.print(f"{error} Sentences are answered as soon as it can be reached.")
        known = frozenset()
    except HomeAssistantError as error:
        raise InputError(str(error)) from None
    if twin:
        there = sum(device.did in known for device in twin.plan.devices)
        if known and 2 * there < len(twin.plan.devices):  # it is not the home of this Home Assistant
            count = count_with_noun(len(twin.plan.devices), "device")
            what = f"{there} of its {count} are known to the Home Assistant at {url}"
            raise InputError(what, str(file), f"import its home: homerl import-ha {url} --out {file}, or leave out --home")
        return twin, real
    listing = fetch_listing(url, token_env)
    imported, real.known = import_home(listing), listing
    if left := sum(note.part == "automation" for note in imported.notes):
        console.print(f"{count_with_noun(left, 'automation')} cannot be followed; homerl import-ha lists them")
    return imported.home, real


COMMAND = Command(
    "serve-agent",
    "Home Assistant",
    serve_agent,
    "homerl serve-agent --model runs/quickstart/rlve/model --ha http://homeassistant.local:8123 --mode confirm",
)
