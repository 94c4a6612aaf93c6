"""What makes an agent an app, a component and a service of a person's Home Assistant: each says the same of it."""

from __future__ import annotations

import inspect
import json
import os
import re
import shutil
import stat
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
import yaml
from agent_served import answers
from container import instructions
from running import running
from scripted_server import ScriptedServer
from starlette.applications import Starlette
from starlette.requests import Request as Asked
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute

import homerl
from ha.app_repository import CONTAINER, PINS, UNPUBLISHED, app_pins, find_image, write_repository
from homerl.envs.assistant.commands.serve_agent import COMMAND
from homerl.envs.assistant.serving.reply_text import FILE as WORDS
from homerl.envs.core.documents import read_yaml
from package.brand_images import PICTURES
from package.facts import Project
from tests.envs.assistant.listing.replay import TOKEN, Replay

FOLDER = Path(__file__).parents[4] / "envs/assistant/app"
APP, COMPONENT = FOLDER / "app", FOLDER / "custom_components/homerl"
CONFIG = yaml.safe_load((APP / "config.yaml").read_text())
LANGUAGES = {"de", "en", "es", "fr", "it", "nl", "zh-Hans"}  # in which a person reads the app and the component
INTERNAL = {"conversation", "diagnostics", "homeassistant"}  # parts of Home Assistant that need not be named, says hassfest
_spec = spec_from_file_location("start", APP / "start.py")
assert _spec is not None and _spec.loader is not None
start = module_from_spec(_spec)
_spec.loader.exec_module(start)


def keys(value: Any, path: str = "") -> set[str]:
    """The paths of all texts in nested objects."""
    if not isinstance(value, dict):
        return {path}
    return {found for name, one in value.items() for found in keys(one, f"{path}/{name}")}


def test_all_parts_are_of_this_version() -> None:
    manifest = json.loads((COMPONENT / "manifest.json").read_text())
    assert manifest["version"] == CONFIG["version"] == homerl.__version__
    assert json.loads((FOLDER / "hacs.json").read_text())["homeassistant"] == CONFIG["homeassistant"]


def texts_in(value: Any) -> Iterator[str]:
    """All texts in nested objects."""
    if isinstance(value, dict):
        for one in value.values():
            yield from texts_in(one)
    else:
        yield value


def test_the_component_keeps_the_rules_of_hassfest_and_hacs() -> None:
    """Those that need no published repository. Neither program is in a package that can be installed."""
    manifest, hacs = (json.loads(path.read_text()) for path in (COMPONENT / "manifest.json", FOLDER / "hacs.json"))
    wanted = set("domain name codeowners documentation integration_type iot_class issue_tracker version".split())
    allowed = wanted | set("after_dependencies config_flow dependencies loggers requirements single_config_entry".split())
    assert [*manifest] == ["domain", "name", *sorted(manifest.keys() - {"domain", "name"})]
    assert wanted <= manifest.keys() <= allowed and manifest["domain"] == COMPONENT.name
    assert manifest["integration_type"] in ("device", "entity", "hardware", "helper", "hub", "service", "system")
    assert manifest["iot_class"] in ("assumed_state", "calculated", "local_polling", "local_push")
    assert re.fullmatch(r"\d+\.\d+\.\d+", manifest["version"])
    assert all(manifest[key].startswith("https://") for key in ("documentation", "issue_tracker"))
    before, after = set(manifest["dependencies"]), set(manifest["after_dependencies"])
    source = "\n".join(path.read_text() for path in COMPONENT.glob("*.py"))
    parts = re.findall(r"homeassistant\.components\.(\w+)", source)
    whole = ", ".join(re.findall(r"from homeassistant\.components import (.+)", source)).split(", ")
    assert {*parts, *whole} <= before | after | INTERNAL and not before & after
    assert "async_step_hassio" not in source or "self.async_set_unique_id" in source
    assert {"name"} <= hacs.keys() <= {"name", "homeassistant", "hacs", "filename", "zip_release", "render_readme"}


def test_the_texts_of_the_component_keep_the_rules_of_hassfest() -> None:
    """No HTML, no address, no placeholder in quotes, no space at an end; each field that is described is there."""
    for path in (COMPONENT / "translations").iterdir():
        told = json.loads(path.read_text())
        for text in texts_in(told):
            assert text and text == text.strip() and not re.search(r"<[a-z/]|'{\w+}'|\[%|%\]", text, re.I), text
            assert not re.search(r"(\w+://|www\.)[a-z0-9]+([-.][a-z0-9]+)*\.[a-z]{2,5}\b", text, re.I), text
        steps = [step for flow in ("config", "options") for step in told[flow]["step"].values()]
        assert all(step.get("data_description", {}).keys() <= step.get("data", {}).keys() for step in steps)
        names = [name for one in told["selector"].values() for name in one["options"]]
        assert all(re.fullmatch(r"[a-z0-9]+([_-][a-z0-9]+)*", name) for name in names)


def test_the_component_depends_on_nothing_but_home_assistant() -> None:
    allowed = set(sys.stdlib_module_names) | {"homeassistant", "aiohttp", "yarl", "voluptuous"}
    for path in COMPONENT.glob("*.py"):
        names = re.findall(r"^(?:from|import) (\w+)", path.read_text(), re.M)
        assert set(names) <= allowed, path.name


def test_the_texts_of_the_component_are_there_in_each_language() -> None:
    told = {path.stem: json.loads(path.read_text()) for path in (COMPONENT / "translations").iterdir()}
    texts = told["en"]
    assert told.keys() == LANGUAGES
    assert all(keys(one) == keys(texts) for one in told.values())
    assert all(told[one]["config"] != texts["config"] for one in LANGUAGES - {"en"})
    source = (COMPONENT / "config_flow.py").read_text()
    assert set(re.findall(r'errors\[.*?\] = "(\w+)"', source)) == texts["config"]["error"].keys()
    assert set(re.findall(r'_added\(\s*"(\w+)"', source)) == texts["config"]["step"].keys()


def test_the_app_and_its_texts_know_each_language_that_the_assistant_speaks() -> None:
    (choice,) = re.findall(r"list\((.+)\)", CONFIG["schema"]["language"])
    assert set(choice.split("|")) == read_yaml(WORDS).data.keys()
    assert {path.stem for path in (APP / "translations").iterdir()} == LANGUAGES
    assert {name.partition("-")[0] for name in LANGUAGES} >= set(choice.split("|"))
    (offered,) = re.findall(r"what it speaks: ([^;]+);", str(inspect.signature(COMMAND.work).parameters["language"]))
    assert re.split(", | or ", offered) == choice.split("|")


def test_the_app_installs_versions_of_our_constraints_alone() -> None:
    assert PINS.read_text() == app_pins(), "run ./scripts/regenerate"
    installed = [words for name, words in instructions(APP / "Dockerfile") if name == "RUN" and "pip install" in words]
    assert [re.findall(r"-c (\S+)", words) for words in installed] == [["/app/constraints.txt"]]
    assert "homerl-*.whl" in installed[0] and "--only-binary :all:" in installed[0]  # by name, anybody's homerl would do
    images = {words.partition(" ")[0] for name, words in instructions(APP / "Dockerfile") if name == "FROM"}
    assert images == {f"python:{CONTAINER['python_version']}-slim"}
    pins = PINS.read_text().splitlines()[1:]
    assert f"homerl=={homerl.__version__}" in pins and all(re.fullmatch(r"[\w.-]+==\S+", pin) for pin in pins)
    tested = (Path(__file__).parents[4] / "constraints.txt").read_text().split()
    assert set(pins[1:]) <= set(tested)


@pytest.fixture
def published(tmp_path: Path, monkeypatch) -> Callable[..., Path]:
    """Writes a repository without its wheel, which takes a builder."""
    monkeypatch.setattr("ha.app_repository.subprocess.run", lambda *_, **__: None)

    def write(address: str | None, image: str | None = None) -> Path:
        write_repository(tmp_path / "new", address, image)
        return tmp_path / "new"

    return write


def test_a_published_repository_names_its_own_address_wherever_it_names_one(published) -> None:
    address = "https://github.com/Me/agent"
    new = published(address, find_image(address))
    texts = [path.read_text() for path in new.rglob("*") if path.is_file() and path.suffix != ".png"]
    assert not any("homerl.example" in text for text in texts)
    manifest = json.loads((new / "custom_components/homerl/manifest.json").read_text())
    assert manifest["issue_tracker"] == "https://github.com/Me/agent/issues"
    assert manifest["documentation"].startswith("https://github.com/Me/agent#")
    assert "repository_url=https%3A%2F%2Fgithub.com%2FMe%2Fagent)" in (new / "README.md").read_text()
    config = yaml.safe_load((new / "app/config.yaml").read_text())
    assert config == CONFIG | {"url": address, "image": "ghcr.io/me/agent"}
    assert yaml.safe_load((new / "repository.yaml").read_text())["url"] == address
    with pytest.raises(ValueError, match="holds files"):
        published(address)


def test_a_published_repository_has_what_the_app_store_and_hacs_show(published) -> None:
    new = published("https://git.example.org/me/agent", find_image("https://git.example.org/me/agent"))
    files = "config.yaml Dockerfile constraints.txt README.md DOCS.md CHANGELOG.md icon.png logo.png run.sh start.py"
    assert {path.name for path in (new / "app").iterdir()} == {*files.split(), "translations"}
    assert os.access(new / "app/run.sh", os.X_OK)
    assert "image" not in yaml.safe_load((new / "app/config.yaml").read_text())  # nobody knows where it would lie
    changes = (new / "app/CHANGELOG.md").read_text()
    assert f"## {homerl.__version__}" in changes and "](" not in changes
    labels = dict(instructions(new / "app/Dockerfile"))["LABEL"]
    assert 'io.hass.type="app"' in labels and f'io.hass.arch="{"|".join(CONFIG["arch"])}"' in labels
    assert {"repository.yaml", "hacs.json", "README.md", "custom_components", "app"} < {path.name for path in new.iterdir()}
    workflow = yaml.safe_load((new / ".github/workflows/publish.yaml").read_text())
    build = next(step["with"] for step in workflow["jobs"]["image"]["steps"] if "build-push" in step.get("uses", ""))
    processors = {"aarch64": "linux/arm64", "amd64": "linux/amd64"}
    assert {processors[one] for one in CONFIG["arch"]} == set(build["platforms"].split(","))


def test_without_an_address_it_is_for_the_shares_of_one_home(published) -> None:
    assert (published(None) / "app/config.yaml").read_text() == (APP / "config.yaml").read_text()


@pytest.mark.parametrize(
    ("address", "image"),
    [
        ("https://github.com/Me/Agent", "ghcr.io/me/agent"),
        ("https://gitlab.com/a/b/agent", "registry.gitlab.com/a/b/agent"),
        ("https://git.example.org/me/agent", None),
    ],
)
def test_the_image_lies_beside_the_repository(address: str, image: str | None) -> None:
    assert find_image(address) == image


def test_the_address_of_the_project_says_those_of_the_app(tmp_path: Path) -> None:
    project = Project(tmp_path)
    (tmp_path / "pyproject.toml").write_text('[project.urls]\nRepository = "https://github.com/Me/homerl"\n')
    assert project.app_address == "https://github.com/Me/homerl-app"
    assert find_image(project.app_address) == "ghcr.io/me/homerl-app"


def size_of(picture: Path) -> tuple[int, int]:
    """Width and height of a PNG with transparency."""
    head = picture.read_bytes()[:26]
    width, height, depth, colours = struct.unpack(">IIBB", head[16:26])
    assert head.startswith(b"\x89PNG") and (depth, colours) == (8, 6), picture
    return width, height


def test_pictures_have_the_sizes_that_home_assistant_asks_for() -> None:
    brand = {path.name: size_of(path) for path in (COMPONENT / "brand").iterdir()}
    assert {COMPONENT / "brand" / name for name in brand} | {APP / "icon.png", APP / "logo.png"} == PICTURES.keys()
    assert brand["icon.png"] == (256, 256) and brand["icon@2x.png"] == (512, 512)
    assert 128 <= brand["logo.png"][1] <= 256 <= brand["logo@2x.png"][1] <= 512  # of the shorter side
    assert brand["dark_logo.png"] == brand["logo.png"] and brand["dark_logo@2x.png"] == brand["logo@2x.png"]
    assert size_of(APP / "icon.png") == (128, 128) and size_of(APP / "logo.png")[0] <= 250


@pytest.mark.parametrize(
    "address", ["git@github.com:me/agent", "http://h/me/agent", "https://h", "https://h/a b", f"{UNPUBLISHED}/a"]
)
def test_what_is_no_address_of_a_repository_is_refused(address: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="OWNER/NAME"):
        write_repository(tmp_path / "new", address, None)
    assert not (tmp_path / "new").exists()


def test_the_texts_of_the_app_are_there_in_each_language() -> None:
    for path in (APP / "translations").iterdir():
        told = yaml.safe_load(path.read_text())
        assert told["configuration"].keys() == CONFIG["schema"].keys() and told["network"].keys() == CONFIG["ports"].keys()
        assert all(text["name"] and text["description"] for text in told["configuration"].values()), path


def test_the_app_starts_a_command_that_there_is(tmp_path: Path) -> None:
    options = CONFIG["options"] | {"model": "http://m/v1", "served": "tiny", "allow": ["lock.a", "lock.b"]}
    _, _, module, name, *words = start.command_of(options, "http://supervisor/core", tmp_path)
    known = {f"--{parameter.replace('_', '-')}" for parameter in inspect.signature(COMMAND.work).parameters}
    assert (module, name) == ("homerl", COMMAND.words) and set(words[::2]) <= known
    pairs = [*zip(words[::2], words[1::2])]
    assert {
        ("--mode", "shadow"),
        ("--first", "hassil"),
        ("--allow", "lock.a"),
        ("--allow", "lock.b"),
        ("--ingress", "172.30.32.2"),
    } <= {*pairs}
    assert "--served" not in start.command_of(CONFIG["options"] | {"model": "http://m/v1"}, "http://s", tmp_path)


def test_the_key_of_the_app_stays_and_is_its_own(tmp_path: Path) -> None:
    key = start.key_of(tmp_path)
    assert len(key) >= 32 and start.key_of(tmp_path) == key
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600


class Supervisor:
    """A stand-in for the Supervisor: what it tells an app, what it is told, and Home Assistant behind it."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.home = Replay()

    def __enter__(self) -> Supervisor:
        routes = [
            Route("/addons/self/info", self._info),
            Route("/discovery", self._discovery, methods=["POST"]),
            WebSocketRoute("/core/api/websocket", self.home._converse),
        ]
        self._running = running(Starlette(routes=routes), quiet=True)
        self.url = f"http://127.0.0.1:{self._running.__enter__()}"
        return self

    def __exit__(self, *raised: Any) -> None:
        self._running.__exit__(*raised)

    async def _info(self, request: Asked) -> JSONResponse:
        assert request.headers["authorization"] == f"Bearer {TOKEN}"
        return JSONResponse({"result": "ok", "data": {"hostname": "local-homerl", "ingress": True}})

    async def _discovery(self, request: Asked) -> JSONResponse:
        self.told.append(await request.json())
        return JSONResponse({"result": "ok", "data": {"uuid": "1"}})


@pytest.mark.long
def test_the_app_runs_under_a_supervisor(tmp_path: Path) -> None:
    with Supervisor() as supervisor, ScriptedServer() as model:
        options = CONFIG["options"] | {"model": model.url}
        (tmp_path / "options.json").write_text(json.dumps(options))
        environment = {"SUPERVISOR_TOKEN": TOKEN, "SUPERVISOR": supervisor.url, "AGENT_FOLDER": str(tmp_path)}
        more = os.environ | environment | {"PYTHON": sys.executable}
        with subprocess.Popen(
            [APP / "run.sh"], env=more, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as app:
            try:
                answers(f"http://127.0.0.1:{start.PORT}/health", app)
                (told,) = supervisor.told
                assert told["service"] == "homerl" and told["config"]["host"] == "local-homerl"
                head = {"Authorization": f"Bearer {told['config']['api_key']}", "Content-Type": "application/json"}
                body = json.dumps({"messages": [{"role": "user", "content": "Hum a song, please."}]}).encode()
                where = f"http://127.0.0.1:{told['config']['port']}/v1/chat/completions"
                reply = json.load(urlopen(Request(where, body, head), timeout=200))
            finally:
                app.terminate()
            printed = app.stdout.read() if app.stdout else ""
    assert reply["choices"][0]["message"]["content"] == "I switched nothing just now."  # it says "Done.", without a call
    assert TOKEN not in printed and told["config"]["api_key"] not in printed
    assert (tmp_path / "agent.jsonl").exists()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not at hand")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    unit = (FOLDER / "homerl-agent.service").read_text().replace("/opt/homerl/bin/homerl", sys.executable)
    (tmp_path / "homerl-agent.service").write_text(unit)
    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / "homerl-agent.service")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "homerl-agent" not in done.stderr, done.stderr
