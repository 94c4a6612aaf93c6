"""`homerl bench run --videos`: a model at a real server sees the frames that tools name, and the dialogue keeps handles."""

from __future__ import annotations

import base64
import io
import json
from collections import Counter

import pytest
from forked import homerl
from scripted_server import MODEL, ScriptedServer

from homerl.app import play_suite as evaluation
from homerl.app.play_suite import BenchRun, run_benchmark
from homerl.bench.stored_scores import rescore_run
from homerl.bench.suites import read_suite, write_suite
from homerl.envs.core.documents import InputError
from homerl.envs.personalhome.bench.suite import ScenesSuite, build_scene_instances
from homerl.envs.personalhome.bench.suite import build_household_instances as build_plain
from homerl.envs.personalhome.sim.env import result_to_observation
from homerl.envs.personalhome.tasks.expert import right_answer
from homerl.models.endpoint.llm_agent import MOST, add_frame_images
from homerl.play.trajectory import read_rows

pillow = pytest.importorskip("PIL.Image")
COLOURS = ("red", "lime", "blue", "yellow", "fuchsia", "aqua")  # of the clip's seconds


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    """A suite of two households with scenes, with a choice of each."""
    found = list(build_scene_instances(5, "en", Counter(), 2))
    path = tmp_path_factory.mktemp("suite") / "scenes.jsonl"
    choices = {one.household: one for one in found if one.task.kind == "choice"}
    write_suite(iter(choices.values()), path)
    return path


@pytest.fixture
def clips(suite, tmp_path):
    """A folder with a clip of the first household, which shows another colour each second."""
    name, folder = f"h{read_suite(str(suite))[0].household}", tmp_path / "clips"
    (folder / name).mkdir(parents=True)
    for second, colour in enumerate(COLOURS):
        pillow.new("RGB", (16, 16), colour).save(folder / name / f"{second}.png")
    return folder


def called(name, **arguments):
    return {"type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def server(suite, *calls):
    """Makes the calls in one message, then answers rightly."""
    right = {one.blueprint.intents[0].queries[0]: right_answer(one.blueprint) for one in read_suite(str(suite))}

    def answer(request):
        messages = request["messages"]
        asked = next(message["content"] for message in messages if message["role"] == "user")
        return {"content": right[asked]} if len(messages) > 2 else {"tool_calls": calls}

    return ScriptedServer(answer=answer)


def colours(message):
    """The colours of the images in a message."""
    urls = [part["image_url"]["url"] for part in message["content"] if part["type"] == "image_url"]
    images = [pillow.open(io.BytesIO(base64.b64decode(url.split(";base64,")[1]))) for url in urls]
    known = {pillow.new("RGB", (1, 1), colour).getpixel((0, 0)): colour for colour in COLOURS}
    return [known[image.convert("RGB").getpixel((8, 8))] for image in images]


def run(suite, out, served, **more):
    return run_benchmark(BenchRun(str(suite), served.url, out, **more))


def sent(served, text):
    """The messages of the request in which the first result of a tool holds a text."""
    asked = [request["messages"] for request in served.requests if len(request["messages"]) > 2]
    return next(messages for messages in asked if text in messages[3]["content"])


@pytest.mark.long
def test_a_served_model_sees_the_frames_of_the_asked_seconds_and_trajectories_keep_handles(suite, clips, tmp_path):
    calls = called("extract_frames", start=2, end=3, fps=1), called("inspect_video_segment", start="0", end="00:01")
    with server(suite, *calls) as served:
        options = ["--model", served.url, "--videos", clips, "--out", tmp_path / "out"]
        done = homerl("bench", "run", suite, *options)
        done.check_returncode()
    assert "clips of 1 of 2 households" in done.stdout
    assert json.loads((tmp_path / "out/run.json").read_text())["clips"] == "1 of 2 households"
    filmed, other = (one.household for one in read_suite(str(suite)))
    messages = sent(served, f"h{filmed}")
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool", "tool", "user"]
    assert colours(messages[-1]) == ["blue", "yellow", "red", "lime"]
    frames = ", ".join(f"frame:h{filmed}@{second}.000" for second in (2, 3, 0, 1))
    assert messages[-1]["content"][0] == {"type": "text", "text": f"frames of the video (4 of 4): {frames}"}
    told = sent(served, "no clip is there")
    assert [message["role"] for message in told][-2:] == ["tool", "tool"] and f"h{other}" not in json.dumps(told)

    assert json.loads((tmp_path / "out/score.json").read_text())["success"] == 1.0
    stored = (tmp_path / "out/trajectories.jsonl").read_text()
    assert "base64" not in stored and f"video:h{filmed}@0.000-1.000" in stored
    assert all(row["messages"][-1]["role"] == "assistant" for row in read_rows(tmp_path / "out/trajectories.jsonl"))
    clips.rename(tmp_path / "away")
    assert "the same results" in rescore_run(tmp_path / "out")


def result(**data):
    """A tool's result as the world writes it."""
    return {"role": "tool", "content": result_to_observation(data)}


def frames(*handles):
    return result(frames=[{"ts": "00:00.000", "image": handle} for handle in handles])


def test_a_message_shows_few_frames_evenly_spread(suite, clips):
    one = read_suite(str(suite))[0]
    _, shown = ScenesSuite().with_clips([one], clips, "agentic")
    names = [f"frame:h{one.household}@{second}.000" for second in range(40)]
    (*_, message) = add_frame_images([frames(*names), frames(names[0])], shown, one.id)
    head, *images = message["content"]
    assert len(images) == MOST and f"({MOST} of 40)" in head["text"]
    assert [names[at * 40 // MOST] for at in range(MOST)] == head["text"].partition("): ")[2].split(", ")


def test_a_request_shows_the_latest_frames_and_leaves_earlier_ones_as_handles(suite, clips):
    one = read_suite(str(suite))[0]
    _, shown = ScenesSuite().with_clips([one], clips, "agentic")
    first, second = (result(video=f"video:h{one.household}@0.000-{last}.000") for last in (MOST - 1, 2))
    reply = {"role": "assistant", "content": "again"}
    one_look = add_frame_images([first], shown, one.id)
    assert len(colours(one_look[-1])) == MOST
    two = add_frame_images([first, reply, second], shown, one.id)
    assert [message["role"] for message in two] == ["tool", "user", "assistant", "tool", "user"]
    assert colours(two[-1]) == ["red", "lime", "blue"] and len(colours(two[1])) == MOST - 3
    assert f"({MOST - 3} of {MOST})" in two[1]["content"][0]["text"]
    assert add_frame_images([first, reply, first], shown, one.id) == [first, reply, *one_look]


def test_only_what_a_tool_shows_of_the_own_clip_is_shown(suite, clips):
    one = read_suite(str(suite))[0]
    own, other = (f"frame:h{household}@1.000" for household in (one.household, 9))
    (clips / "h9").mkdir()
    pillow.new("RGB", (16, 16), "aqua").save(clips / "h9/0.png")
    _, shown = ScenesSuite().with_clips([one], clips, "agentic")
    refusal = {"role": "tool", "content": f"refused: unknown_member: there is no person '{own}'"}
    assert len(add_frame_images([frames(own)], shown, one.id)) == 2
    for said in (refusal, frames(other), result(video="video:h9@0.000-2.000"), result(member=own), frames(f"no {own}")):
        assert add_frame_images([said], shown, one.id) == [said]


def test_an_agent_that_makes_up_handles_is_shown_nothing(suite, clips, tmp_path):
    own = f"frame:h{read_suite(str(suite))[0].household}@1.000"
    with server(suite, called("get_members_appearance", member_ids=[own])) as served:
        assert run(suite, tmp_path / "out", served, videos=clips)["success"] == 1.0
    assert own in json.dumps(served.requests) and "image_url" not in json.dumps(served.requests)


def test_a_run_with_another_clip_is_another_run_and_resume_asks_nothing_twice(suite, clips, tmp_path):
    name = read_suite(str(suite))[0].household
    with server(suite, called("extract_frames", start=0, end=0)) as served:
        run(suite, tmp_path / "out", served, videos=clips)
        asked = len(served.requests)
        run(suite, tmp_path / "out", served, videos=clips, resume=True)
        assert len(served.requests) == asked
        (film,) = [path for path in clips.rglob("*") if path.name == "0.png"]
        assert colours(sent(served, f"h{name}")[-1])[0] == "red"
        del served.requests[:]
        pillow.new("RGB", (16, 16), "aqua").save(film)
        run(suite, tmp_path / "out", served, videos=clips, resume=True)
        assert len(served.requests) == asked and colours(sent(served, f"h{name}")[-1])[0] == "aqua"


def test_a_clip_that_breaks_during_the_run_is_nobodys_failure(suite, clips, tmp_path):
    with server(suite, called("extract_frames", start=5, end=5)) as served:
        answer = served.answer

        def broken(request):
            for image in clips.rglob("*.png"):
                image.unlink()
            return answer(request)

        served.answer = broken
        scored = run(suite, tmp_path / "out", served, videos=clips)
    assert scored["n"] == 1 and scored["success"] == 1.0  # the other household
    faults = [row["fault"] for row in read_rows(tmp_path / "out/results.jsonl") if row.get("fault")]
    assert faults and str(clips) in json.dumps(faults)


def refused(suite, out, **more):
    settings = {"served": MODEL, "model": "http://127.0.0.1:9/v1"} | more
    with pytest.raises(InputError) as caught:
        run_benchmark(BenchRun(str(suite), out=out, **settings))
    return f"{caught.value.where} {caught.value.what} {caught.value.remedy}"


def test_what_videos_cannot_be_served_for_is_refused_with_what_to_do(suite, clips, tmp_path):
    for model in ("expert", str(tmp_path)):
        assert "--model http" in refused(suite, tmp_path / "out", model=model, videos=clips)
    assert "--setting agentic" in refused(suite, tmp_path / "out", setting="sole", videos=clips)
    assert "no such folder" in refused(suite, tmp_path / "out", videos=tmp_path / "gone")
    (tmp_path / "empty").mkdir()
    name = f"h{read_suite(str(suite))[0].household}.mp4"
    assert name in refused(suite, tmp_path / "out", videos=tmp_path / "empty")
    folder = tmp_path / "empty" / name.removesuffix(".mp4")
    folder.mkdir()
    pillow.new("RGB", (16, 16)).save(folder / "0.png")
    (folder / "7.png").write_text("no image")
    assert f"{folder / '7.png'} the file is neither" in refused(suite, tmp_path / "out", videos=tmp_path / "empty")
    plain = tmp_path / "plain.jsonl"
    write_suite(build_plain(5, "en", Counter(), 1), plain)
    assert "personalhome-bench have no videos" in refused(plain, tmp_path / "out", videos=clips)
    assert not (tmp_path / "out").exists()


def test_options_that_do_not_fit_are_refused_before_a_suite_is_built(clips, tmp_path, monkeypatch):
    monkeypatch.setattr(evaluation, "find_or_build_suite", lambda *given: pytest.fail("a suite is built"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    suite, out = "personalhome-scenes", tmp_path / "out"
    assert "--model there is no model 'exprt'" in refused(suite, out, model="exprt")
    assert "--model there is no model '/no/such/model'" in refused(suite, out, model="/no/such/model")
    assert "--setting personalhome-scenes has no setting 'sol'" in refused(suite, out, setting="sol")
    assert "--user in the world" in refused(suite, out, user="http://127.0.0.1:9/v1")
    assert "the server does not answer" in refused("smarthome-bench", out, user="http://127.0.0.1:9/v1")
    assert "--setting agentic" in refused(suite, out, setting="sole", videos=clips)
    assert "no such folder" in refused(suite, out, videos=tmp_path / "gone")
    assert "--videos only a served model" in refused(suite, out, model="expert", videos=clips)
    assert "--videos the tasks of personalhome-bench" in refused("personalhome", out, videos=clips)
    assert not out.exists()
