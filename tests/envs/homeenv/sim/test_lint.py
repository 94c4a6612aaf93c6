"""A folder of device files is checked whole: every error and every slip with file, line and remedy."""

from pathlib import Path

import pytest

from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.maker.layout_and_furniture import shipped_priors
from homerl.envs.homeenv.sim.devices.device_lint import LintReport, lint_device_files
from homerl.envs.homeenv.sim.devices.device_spec import NAMED, SHIPPED, Catalogue

GOOD = """- name: lamp
  userdata: {category: light, spid: "900100"}
  attributes:
    - {name: state, type: str, options: ["on", "off"]}
    - {name: level, type: int, range: [1, 100]}
    - {name: heat, type: float, range: [0, 90], read_only: true}
  services:
    - {name: turn_on, code: self.state = "on", description: Switch it on}
    - name: set_level
      description: Set the level
      arguments: [{name: level, type: int, range: [1, 100]}]
      requires: self.state == "on"
      code: self.level = level
"""


def check(folder: Path, **files: str) -> LintReport:
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    return lint_device_files(folder, shipped_priors().categories, Catalogue.load_shipped())


def test_the_shipped_catalogue_is_clean():
    report = lint_device_files(SHIPPED, shipped_priors().categories, Catalogue.products_beside(SHIPPED))
    assert not report.findings and len(report.specs) == len(Catalogue.load_shipped())


def test_the_catalogue_in_home_assistants_shape_is_clean():
    report = lint_device_files(NAMED["homeassistant"], shipped_priors().categories, Catalogue.load_shipped())
    assert not report.findings and len(report.specs) > 50


@pytest.mark.parametrize(
    ("find", "put", "says"),
    [
        ('requires: self.state == "on"', "requires: self.level > 100", "set_level was refused in all trials"),
        ("code: self.level = level", "code: self.level = level + 100", "set_level was refused in all trials"),
        ("name: level, type: int, range: [1, 100]", "name: brightness, type: int, range: [1, 255]", "as percent"),
    ],
)
def test_what_never_works_or_works_on_nothing_is_warned_of(tmp_path, find, put, says):
    text = GOOD.replace(find, put)
    text = (
        text.replace("self.level = level", "self.brightness = brightness").replace("[{name: level", "[{name: brightness")
        if "255" in put
        else text
    )
    assert [finding.warning and says in finding.what for finding in check(tmp_path, lamp=text).findings] == [True]
    wired = text.replace('spid: "900100"}', 'spid: "900100"}\n  air: {kind: light, brightness: self.brightness / 2.55}')
    assert "255" not in put or not check(tmp_path, lamp=wired).findings


AIR_CONDITIONER = """- name: cooler
  userdata: {category: climate, spid: "900200", rooms: [study]}
  attributes:
    - {name: state, type: enum, options: ["off", heat, cool]}
    - {name: temperature, type: int, range: [16, 30], unit: celsius}
  services:
    - name: set_temperature
      description: Set what it does
      arguments: [{name: temperature, type: int, range: [16, 30]}, {name: mode, type: enum, options: ["off", heat, cool]}]
      code: "self.temperature = temperature\\nself.state = mode"
"""


def test_an_air_conditioner_whose_room_stays_as_it_is_is_warned_of(tmp_path):
    (finding,) = check(tmp_path, cooler=AIR_CONDITIONER).findings
    assert "no value of 'temperature' warms or cools the room" in finding.what and finding.where.endswith(":1")
    air = """air: {kind: air_conditioner, state: '"on"', mode: self.state, target_temperature: self.temperature}"""
    assert not check(tmp_path, cooler=AIR_CONDITIONER.replace("  attributes", f"  {air}\n  attributes")).findings


def test_the_example_of_the_guide_is_clean(tmp_path):
    guide = (Path(__file__).parents[4] / "docs" / "devices.md").read_text()
    report = check(tmp_path, lamp=guide.split("```yaml\n")[1].split("```")[0])
    assert not report.findings and [spec.name for spec in report.specs] == ["reading_lamp"]
    listed = {
        name for line in guide.splitlines() if line.startswith("| ") for name in line.split("|")[2].replace(",", " ").split()
    }
    assert {spec.category for spec in Catalogue.load_shipped().values()} <= listed


def test_a_good_device_is_clean(tmp_path):
    report = check(tmp_path, lamp=GOOD)
    assert not report.findings and [spec.name for spec in report.specs] == ["lamp"]


@pytest.mark.parametrize(
    ("find", "put", "line", "says"),
    [
        (", read_only: true", "", 6, "no service writes 'heat'"),
        ("[1, 100]}\n    - {name: heat", "[1, 100], read_only: true}\n    - {name: heat", 5, "is read_only, but"),
        (", description: Switch it on", "", 7, "no description of turn_on"),
        ("name: heat, type: float, range: [0, 90]", "name: heat, type: float", 6, "'heat' has no range"),
        ("name: heat,", "name: temperature,", 6, "'temperature' has no unit"),
        (
            "level, type: int, range: [1, 100]}]",
            "level, type: int, range: [0, 100]}]",
            11,
            "but the attribute holds int 1..100",
        ),
        ("level, type: int, range: [1, 100]}]", "level, type: int}]", 11, "but the attribute holds int 1..100"),
        ("category: light", "category: gizmo", 2, "may stand in any room"),
    ],
)
def test_slips_are_warned_of(tmp_path, find, put, line, says):
    assert find in GOOD
    report = check(tmp_path, lamp=GOOD.replace(find, put, 1))
    (finding,) = report.findings
    assert finding.warning and not report.error_count and len(report.specs) == 1
    assert says in finding.what and finding.where == f"{tmp_path}/lamp.yaml:{line}" and finding.remedy


def test_an_argument_is_held_against_the_attribute_that_the_code_sets_to_it(tmp_path):
    found = "arguments: [{name: level, type: int, range: [1, 100]}]"
    assert found in GOOD and "code: self.level = level" in GOOD
    other = GOOD.replace(found, found.replace("level", "share").replace("100", "150")).replace("= level", "= share")
    (finding,) = check(tmp_path, lamp=other).findings
    assert finding.warning and "takes int 1..150, but 'level', which it sets, holds int 1..100" in finding.what
    assert finding.where == f"{tmp_path}/lamp.yaml:11"


def test_what_is_said_on_purpose_is_no_slip(tmp_path):
    sensor = GOOD.replace(", read_only: true", "").replace('"900100"', '"900100", tags: [sensor]')
    rooms = GOOD.replace('light, spid: "900100"', 'gizmo, spid: "900101", rooms: [kitchen, garage]')
    assert not check(tmp_path, sensor=sensor, rooms=rooms).findings


def test_all_that_is_wrong_is_said_at_once(tmp_path):
    wrong = GOOD.replace("type: int, range: [1, 100]}\n", "type: itn, range: [1, 100]}\n").replace("read_only", "readonly")
    code = GOOD.replace("self.state =", "self.stat =")
    report = check(
        tmp_path,
        a_keys=wrong,
        b_code=code.replace("900100", "900101"),
        c_yaml="- name: [x\n",
        d_none="name: x\n",
        e_good=GOOD.replace("900100", "900102"),
        f_twice=GOOD.replace("900100", "900102"),
        g_shipped=GOOD.replace("900100", "100001"),
    )
    found = [(finding.where.removeprefix(f"{tmp_path}/"), finding.what) for finding in report.findings]
    expected = [
        ("a_keys.yaml:5", "'itn'"),
        ("a_keys.yaml:6", "readonly is not a known key"),
        ("b_code.yaml:8", "'turn_on': 'self.stat' is not an attribute"),
        ("b_code.yaml:12", "no attribute 'stat'"),
        ("c_yaml.yaml:2:1", "not valid YAML"),
        ("d_none.yaml:1", "a list of devices"),
        ("f_twice.yaml:2", "900102 belongs to lamp"),
        ("g_shipped.yaml:2", "the shipped light"),
    ]
    assert [where for where, _ in found] == [where for where, _ in expected]
    assert all(says in what for (_, what), (_, says) in zip(found, expected, strict=True))
    assert report.error_count == len(expected) and all(finding.remedy for finding in report.findings)


def test_a_folder_without_device_files_is_named(tmp_path):
    with pytest.raises(InputError, match="no device files"):
        check(tmp_path)


def test_an_error_hides_no_warning_of_other_devices(tmp_path):
    wrong = GOOD.replace("type: int, range: [1, 100]}\n", "type: itn, range: [1, 100]}\n")
    slips = GOOD.replace(", read_only: true", "").replace("900100", "900101")
    report = check(tmp_path, lamps=f"{wrong}{slips}")
    first, second = report.findings
    assert not first.warning and second.warning and "no service writes" in second.what and not report.specs
    assert second.where == f"{tmp_path}/lamps.yaml:{6 + len(GOOD.splitlines())}"


def test_one_file_is_checked_alone(tmp_path):
    check(tmp_path, lamp=GOOD, other="name: x\n")
    assert not lint_device_files(tmp_path / "lamp.yaml").findings
    assert not lint_device_files(
        SHIPPED / "air_purifier.yaml", (), Catalogue.products_beside(SHIPPED / "air_purifier.yaml")
    ).error_count
