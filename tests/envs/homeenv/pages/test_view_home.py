"""The page of homes: every room and device once, everything escaped, usable by mouse, keyboard and phone."""

from __future__ import annotations

import random
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from homerl.app.cli.app import app
from homerl.envs.homeenv.maker.make import HomeRecipe, HomeSampler, make_home
from homerl.envs.homeenv.pages.device_summary import device_summary, value_with_unit
from homerl.envs.homeenv.pages.home_page import ICONS, HomeView, PlanBlock, floor_plan, render_homes
from homerl.envs.homeenv.sim.devices.device_spec import Catalogue, Device, DeviceSpec, spec_from_json
from homerl.envs.homeenv.sim.devices.rooms import OUTDOORS, ROOM_STATE, Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_file import save_home
from homerl.envs.homeenv.sim.home_plan import LATEST

NASTY = """</ul></style><script>alert("x")</script><img src=x onerror=alert(1)> & "quoted" 'too' {{ 7 * 7 }}"""
SIZES = {"simple": ((5, 5), (5, 5)), "medium": ((35, 35), (10, 11)), "complex": ((135, 135), (31, 31))}


@pytest.fixture(scope="module", params=SIZES)
def home(request) -> Home:
    devices, rooms = SIZES[request.param]
    return make_home(11, HomeRecipe(devices=devices, rooms=rooms))


class Page(HTMLParser):
    """Elements, ids, rooms and devices of a page, with the room that each lies in; unclosed elements are an error."""

    VOID = ("meta", "link", "input")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[tuple[str, str | None]] = []
        self.tags: Counter[str] = Counter()
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.links: list[str] = []
        self.rooms: list[tuple[str, str | None]] = []
        self.devices: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, f"not closed: {self.open}"
        self.text = " ".join("".join(self.words).split())

    def handle_starttag(self, tag, attributes):
        given, within = dict(attributes), next((room for _, room in reversed(self.open) if room is not None), None)
        self.tags[tag] += 1
        self.ids += [given["id"]] if "id" in given else []
        self.targets += [given["popovertarget"]] if "popovertarget" in given else []
        self.links += [value for name, value in attributes if name in ("src", "href", "xlink:href", "action")]
        assert not [name for name in given if name.startswith("on")]
        if "data-room" in given:
            self.rooms.append((given["data-room"], within))
        if "data-did" in given:
            self.devices.append((given["data-did"], within))
        if tag not in self.VOID:
            self.open.append((tag, given.get("data-room")))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        self.words.append(data)


def page_of(*homes: Home) -> Page:
    return Page(render_homes([HomeView(f"h{i}", f"home {i}", home) for i, home in enumerate(homes)]))


def own_device(**over) -> DeviceSpec:
    """A specification as a user might write one."""
    data = {
        "name": "gadget",
        "userdata": {"category": "teleporter", "spid": "x1"},
        "attributes": [{"name": "state", "type": "bool"}, {"name": "charge", "type": "float", "unit": "joule"}],
    }
    return spec_from_json(data | over)


def home_with(spec: DeviceSpec, room: str = "lab", name: str = "gadget", did: str = "7", **values) -> Home:
    air = {path: kind.sample_value(random.Random(0)) for path, kind in ROOM_STATE.items()}
    drawn = {path: kind.sample_value(random.Random(0)) for path, (_, kind) in spec.attribute_index.items()}
    lab = Room(room, "lab", room)
    return Home.build_home([lab], [Device(did, name, lab, spec)], {OUTDOORS: air, room: air, did: drawn | values})


# The page


def test_every_room_lies_in_its_parent_and_every_device_in_its_room_once(home):
    page = page_of(home)
    assert sorted(page.rooms) == sorted((room.id, room.parent) for room in home.plan.rooms)
    assert sorted(page.devices) == sorted((device.did, device.room.id) for device in home.plan.devices)


def test_ids_are_unique_and_every_button_opens_something(home):
    page = page_of(home, home)
    assert len(page.ids) == len(set(page.ids))
    assert set(page.targets) <= set(page.ids)
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)


def test_the_same_homes_give_the_same_bytes_and_need_no_network(home):
    text = render_homes([HomeView("h1", "a", home)])
    assert text == render_homes([HomeView("h1", "a", home.fork())])
    assert all(link.startswith(("#", "data:")) for link in Page(text).links)
    assert "url(" not in text and "@import" not in text and "http" not in text
    assert len(text) < 5_000 * len(home.plan.devices) + 50_000


def test_details_say_every_attribute_and_service_with_its_types():
    home = HomeSampler.sample_test()
    text = page_of(home).text
    for device in home.plan.devices:
        for path, (_, kind) in device.spec.attribute_index.items():
            assert (
                f"{path} {value_with_unit(kind, home.read_value(device.did, path))}".replace("\N{NO-BREAK SPACE}", " ")
                in text
            )
            assert kind.describe_type() in text
        for compiled in device.spec.service_index.values():
            assert compiled.service.signature_text() in text
    assert "Sunday, 1 June 2025, dusk" in text and "20:30" in text and "27.5 °C" in text


def test_everything_of_a_home_is_escaped():
    argument = {"name": "to", "type": "enum", "options": [NASTY]}
    service = {"name": "go", "code": "self.mode = to", "arguments": [argument], "description": NASTY}
    mode = {"name": "mode", "type": "enum", "options": [NASTY], "unit": NASTY, "description": NASTY}
    userdata = {"category": NASTY, "spid": NASTY, "brand": NASTY}
    spec = own_device(description=NASTY, userdata=userdata, attributes=[mode], services=[service])
    view = HomeView("h1", NASTY, home_with(spec, NASTY, NASTY, NASTY + "1"))
    page = Page(render_homes([view]))
    assert page.tags["script"] == 1 and not page.tags["img"]
    assert page.text.count(" ".join(NASTY.split())) >= 10
    assert page.devices == [(NASTY + "1", NASTY)]


def test_homes_without_devices_or_rooms_at_the_end_of_time():
    air = dict.fromkeys(ROOM_STATE, 0.0)
    assert page_of(Home.build_home([], [], {OUTDOORS: air})).rooms == []
    page = page_of(Home.build_home([Room("cave", "cave", "cave", floor=-1)], [], {OUTDOORS: air, "cave": air}, clock=LATEST))
    assert page.rooms == [("cave", None)]
    assert "Basement 1" in page.text and "no devices" in page.text and "31 December 9999" in page.text


def test_a_device_of_ones_own_has_the_general_icon_and_says_what_it_does():
    home = home_with(own_device(), state=True, charge=3.5)
    (tile,) = HomeView("h1", "x", home).room_tiles["lab"]
    assert tile.icon_name == "generic" and tile.tile_summary.tone == "on"
    assert tile.tile_summary.words.replace("\N{NO-BREAK SPACE}", " ") == "on · charge 3.5 joule"


def test_a_tile_shows_the_kind_of_a_device_unless_its_name_does():
    for name, kind in (("ceiling light", "desk lamp"), ("my desk lamp", "")):
        view = HomeView("h1", "x", home_with(own_device(name="desk_lamp"), name=name))
        (tile,) = view.room_tiles["lab"]
        assert tile.product_words == kind and ("<small>desk lamp</small>" in render_homes([view])) == bool(kind)


def test_every_shipped_category_has_an_icon():
    assert {spec.category for spec in Catalogue.load_shipped().values()} <= ICONS


# What devices say


@pytest.mark.parametrize("spid", Catalogue.load_shipped())
def test_every_shipped_device_says_something_whatever_its_state(spid):
    spec = Catalogue.load_shipped()[spid]
    for seed in range(30):
        rng = random.Random(seed)
        shown = device_summary(spec, {path: kind.sample_value(rng) for path, (_, kind) in spec.attribute_index.items()})
        assert shown.words and "None" not in shown.words and "_" not in shown.words
        assert shown.level is None or 0 <= shown.level <= 100
        assert shown.tint is None or shown.tone == "on"


@pytest.mark.parametrize(
    ("spid", "values", "tone", "words"),
    [
        ("100001", {"state": "off", "brightness": 40, "hs_color": (0.0, 0.0)}, "off", "off"),
        ("100001", {"state": "on", "brightness": 40, "hs_color": (240.0, 100.0)}, "on", "on · 40 %"),
        ("100501", {"position": 35}, "plain", "35 % open"),
        ("101101", {"state": "unlocked", "battery": 9}, "alert", "unlocked · battery 9 %"),
        ("101101", {"state": "locked", "battery": 9}, "off", "locked · battery 9 %"),
        ("101701", {"temperature": 20.5, "humidity": 40.0, "battery": 9}, "plain", "20.5 °C · 40.0 %"),
        ("103001", {"smoke": False, "battery": 80}, "off", "no smoke · battery 80 %"),
        ("103101", {"leak": True, "battery": 80}, "alert", "leak · battery 80 %"),
        ("103401", {"gas": False, "carbon_monoxide": 0}, "off", "no gas"),
        ("103401", {"gas": False, "carbon_monoxide": 70}, "alert", "CO 70 ppm · no gas"),
        ("103201", {"contact": "closed", "battery": 80}, "off", "closed · battery 80 %"),
        ("102801", {"position": 0, "obstructed": False, "vacation_lock": False}, "plain", "closed"),
        ("102801", {"position": 30, "obstructed": True, "vacation_lock": False}, "alert", "obstructed · 30 % open"),
        ("103601", {"state": "triggered", "mode": "away", "open_zones": 0, "exit_volume": 5}, "alert", "triggered · away"),
        ("103601", {"state": "disarmed", "mode": "away", "open_zones": 0, "exit_volume": 5}, "off", "disarmed"),
        ("104101", {"child_lock": False, "left.state": "off", "right.state": "on"}, "on", "right on"),
        ("104101", {"child_lock": True, "left.state": "off", "right.state": "off"}, "off", "off, child lock"),
        (
            "100602",
            {"player.work_state": "paused", "player.volume_level": 5, "player.volume_muted_enabled": False},
            "off",
            "paused",
        ),
    ],
)
def test_what_devices_say(spid, values, tone, words):
    shown = device_summary(Catalogue.load_shipped()[spid], values)
    assert (shown.tone, shown.words.replace("\N{NO-BREAK SPACE}", " ")) == (tone, words)


@pytest.mark.parametrize(
    ("attribute", "value", "words"),
    [
        ({"name": "glass_broken", "type": "bool"}, False, "no glass broken"),
        ({"name": "carbon_monoxide", "type": "int", "unit": "ppm"}, 0, "no carbon monoxide"),
        ({"name": "phase", "type": "enum", "options": ["deep_clean", "rest"]}, "deep_clean", "phase deep clean"),
        ({"name": "occupancy", "type": "str", "options": ["yes", "no"]}, "no", "nobody there"),
        ({"name": "uptime", "type": "int", "unit": "second"}, 5400, "uptime 90 min"),
        ({"name": "brightness", "type": "int", "range": [1, 255]}, 180, "71 %"),
        ({"name": "state", "type": "float", "unit": "celsius", "precision": 0.1}, 18.4, "18.4 °C"),
        ({"name": "available", "type": "bool"}, False, "unavailable"),
    ],
)
def test_what_devices_of_ones_own_say(attribute, value, words):
    shown = device_summary(own_device(attributes=[attribute]), {attribute["name"]: value})
    assert shown.words.replace("\N{NO-BREAK SPACE}", " ") == words


def test_a_coloured_lamp_shows_its_colour_but_not_in_white_mode():
    values = {"state": "on", "mode": "color", "brightness": 50, "color_temperature": 2700, "color": "#0000ff"}
    lamp = Catalogue.load_shipped()["100007"]
    assert device_summary(lamp, values).tint == "hsl(240 100% 68%)"
    assert device_summary(lamp, values | {"mode": "white"}).tint == "rgb(255 190 110)"


# The plan


@st.composite
def rooms_and_counts(draw) -> tuple[list[Room], dict[str, int]]:
    rooms: list[Room] = []
    for i in range(draw(st.integers(1, 24))):
        parent = draw(st.sampled_from([None, None, *(room.id for room in rooms)]))
        rooms.append(Room(f"r{i}", "room", f"r{i}", parent=parent))
    return rooms, {room.id: draw(st.integers(0, 12)) for room in rooms}


@settings(max_examples=25, deadline=None)
@given(rooms_and_counts())
def test_plans_hold_every_room_once_in_its_parent_and_widths_add_up(drawn):
    rooms, counts = drawn
    plan = floor_plan(rooms, counts)
    seen: list[tuple[str, str | None]] = []
    tiles: list[str] = []

    def walk(shape: PlanBlock, within: str | None) -> None:
        if shape.kind == "row":
            assert sum(part.columns for part in shape.parts) == shape.columns
        else:
            assert all(part.columns == shape.columns for part in shape.parts)
        if shape.kind == "room":
            seen.append((shape.room, within))
            within = shape.room
        if shape.kind == "tiles":
            assert shape.room == within and 1 <= shape.across <= shape.columns
            tiles.append(shape.room)
        for part in shape.parts:
            walk(part, within)

    walk(plan, None)
    assert sorted(seen) == sorted((room.id, room.parent) for room in rooms)
    assert sorted(tiles) == sorted(name for name, count in counts.items() if count)


def home_of(*rooms: Room) -> Home:
    air = {path: kind.sample_value(random.Random(0)) for path, kind in ROOM_STATE.items()}
    return Home.build_home(rooms, [], dict.fromkeys((OUTDOORS, *(room.id for room in rooms)), air))


def test_an_attic_is_above_all_floors_and_a_basement_below():
    """HomeMaker gives homes of one storey both, with floor 0."""
    names = {"attic": "attic", "bath": "bathroom", "cellar": "old basement", "hall": "upstairs hall", "loft": "lofty hall"}
    rooms = [Room(id, "storage", name) for id, name in names.items()]
    floors = HomeView("h", "home", home_of(*rooms, Room("nook", "closet", "closet", parent="attic"))).floor_views()
    assert [(floor.name, floor.rooms) for floor in floors] == [
        ("Basement", 1), ("Ground floor", 2), ("Floor 1", 1), ("Attic", 2),
    ]  # fmt: skip
    (floor,) = HomeView("h", "home", home_of(Room("attic", "storage", "阁楼", floor=2))).floor_views()
    assert floor.name == "Floor 2"  # as the home says


# The command


def test_the_command_writes_a_gallery_beside_the_first_file_or_where_told(tmp_path):
    files = [tmp_path / "one.json", tmp_path / "two.json"]
    for file in files:
        save_home(HomeSampler.sample_test(), file)
    done = CliRunner().invoke(app, ["view", "home", *map(str, files)])
    assert done.exit_code == 0 and "one" in done.output and "5 devices" in done.output
    assert len(Page((tmp_path / "one.html").read_text("utf-8")).devices) == 10
    CliRunner().invoke(app, ["view", "home", str(files[1]), "--out", str(tmp_path / "page.html")])
    assert len(Page((tmp_path / "page.html").read_text("utf-8")).devices) == 5


# The browser


@pytest.fixture(scope="module")
def gallery(tmp_path_factory) -> Path:
    homes = [make_home(11, HomeRecipe(devices=devices, rooms=rooms, ids="slug")) for devices, rooms in SIZES.values()]
    page = tmp_path_factory.mktemp("homes") / "page.html"
    page.write_text(
        render_homes([HomeView(f"h{i}", name, home) for i, (name, home) in enumerate(zip(SIZES, homes))]), "utf-8"
    )
    return page


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [420, 900, 1150, 1280, 1400])
def test_page_in_a_real_browser(gallery, browser, width, scheme):
    """No error, no request, nothing clipped or sticking out, and the texts have contrast enough."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page, said, asked = context.new_page(), [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(gallery.as_uri())
    assert not said
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CLIPPED) == []
    assert page.evaluate(OVERLAPS) == []
    assert page.evaluate(BROKEN_WORDS) == []
    assert page.evaluate(CONTRAST) == []
    context.close()


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 8])
def test_a_long_title_of_a_room_breaks_between_words(browser, seed):
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.set_content(render_homes([HomeView("h", "home", make_home(seed, HomeRecipe(devices=(16, 20), coined=0.9)))]))
    assert page.evaluate(BROKEN_WORDS.replace(".who b, ", "")) == []


@pytest.mark.long
def test_the_filter_and_the_keyboard_work(gallery, browser):
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto(gallery.as_uri())
    shown = page.locator(".device:visible")
    everything = shown.count()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.matches('.gallery a')")
    page.fill("#filter", "ceiling LIGHT")
    assert 0 < shown.count() < everything
    assert page.locator("#found").inner_text() == f"{shown.count()} of {everything}"
    assert all("ceiling" in text and "light" in text for text in shown.evaluate_all("all => all.map(e => e.dataset.find)"))
    assert page.locator(".room:visible").count() == page.locator(".room:has(.device:visible)").count()
    page.fill("#filter", "on")
    starts = shown.evaluate_all("all => all.map(e => /(^|[^\\p{L}\\p{N}])on/u.test(e.dataset.find))")
    assert 0 < len(starts) < everything and all(starts)
    page.fill("#filter", "air_cond liv")
    assert all("air cond" in text and "liv" in text for text in shown.evaluate_all("all => all.map(e => e.dataset.find)"))
    page.fill("#filter", "(on) [*")
    assert shown.count() == 0
    page.fill("#filter", "no such thing")
    assert shown.count() == 0 and page.locator("#found").inner_text() == "no device matches"
    page.fill("#filter", "")
    page.click(".chip[data-category=lock]")
    assert shown.evaluate_all("all => all.every(e => e.dataset.category === 'lock')") and shown.count()
    page.click(".chip[data-category=lock]")
    assert shown.count() == everything

    tile = page.locator(".tile").first
    tile.focus()
    page.keyboard.press("Enter")
    details = page.locator(".details:popover-open")
    assert details.is_visible() and details.locator("h4").inner_text() == tile.locator("b").inner_text()
    assert page.evaluate("document.activeElement.matches('.details:popover-open .close')")
    page.keyboard.press("Escape")
    assert details.count() == 0
    assert tile.evaluate("tile => tile === document.activeElement")
    page.close()


CLIPPED = """
[...document.querySelectorAll('main *, .top *')]
  .filter(e => !e.closest('.details, svg, .unseen') && e.checkVisibility())
  .filter(e => e.getBoundingClientRect().right > innerWidth + 1
    || (e.clientWidth && e.scrollWidth > e.clientWidth + 1 && !e.matches('.who small')))
  .map(e => e.outerHTML.slice(0, 120))
"""
OVERLAPS = """
[...document.querySelectorAll('.tiles, .row, .stack, .walls, .room')].flatMap(parent => {
  const boxes = [...parent.querySelectorAll('.tile, .room > header')].map(e => e.getBoundingClientRect());
  return boxes.flatMap((a, i) => boxes.slice(i + 1).filter(b =>
    a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1));
}).map(box => JSON.stringify(box)).slice(0, 5)
"""
BROKEN_WORDS = """
[...document.querySelectorAll('.who b, .room h3')].filter(e => [...e.textContent.matchAll(/[^\\s-]+/g)].some(word => {
  const range = document.createRange();
  range.setStart(e.firstChild, word.index);
  range.setEnd(e.firstChild, word.index + word[0].length);
  return new Set([...range.getClientRects()].map(box => box.top)).size > 1;
})).map(e => e.textContent)
"""
# WCAG contrast of texts with what is painted behind them (flat colours; skies are checked at both ends of the gradient).
CONTRAST = """
(() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgb = css => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = css; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + .05) / (y + .05); };
  const behind = e => {
    for (; e; e = e.parentElement) {
      const style = getComputedStyle(e);
      if (e.matches('.sky')) return ['--from', '--to'].map(name => rgb(style.getPropertyValue(name)));
      if (rgb(style.backgroundColor)[3] === 255) return [rgb(style.backgroundColor)];
    }
    return [[255, 255, 255]];
  };
  return [...document.querySelectorAll('body *')]
    .filter(e => !e.matches('script, style') && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()))
    .filter(e => e.checkVisibility())
    .map(e => [e.textContent.trim().slice(0, 40), Math.min(...behind(e).map(b => ratio(rgb(getComputedStyle(e).color), b)))])
    .filter(([, contrast]) => contrast < 4.5).slice(0, 5);
})()
"""
