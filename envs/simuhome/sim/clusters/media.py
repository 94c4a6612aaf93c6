"""The cluster MediaPlayback of a TV. The data of a result is a string."""

from __future__ import annotations

from typing import Any

from homerl.envs.simuhome.sim.home import ClusterView
from homerl.envs.simuhome.sim.registry import register_command
from homerl.envs.simuhome.sim.results import refuse_unless

PLAYING, PAUSED, NOT_PLAYING = range(3)


def _refuse_if(view: ClusterView, refused: bool, name: str) -> None:
    refuse_unless(not refused, "COMMAND_INVALID_ARGS", f"{name} is not possible in state {int(view['CurrentState'])}")


@register_command("MediaPlayback", "Play")
def play_media(view: ClusterView) -> str:
    """Start to play. Refused while playing."""
    _refuse_if(view, view["CurrentState"] == PLAYING, "Play")
    view.set_enum("CurrentState", PLAYING)
    return "Playback started"


@register_command("MediaPlayback", "Pause")
def pause_media(view: ClusterView) -> str:
    """Pause. Refused unless playing."""
    _refuse_if(view, view["CurrentState"] != PLAYING, "Pause")
    view.set_enum("CurrentState", PAUSED)
    return "Playback paused"


@register_command("MediaPlayback", "Stop")
def stop_media(view: ClusterView) -> str:
    """Stop. Refused if neither playing nor paused."""
    _refuse_if(view, view["CurrentState"] == NOT_PLAYING, "Stop")
    view.set_enum("CurrentState", NOT_PLAYING)
    return "Playback stopped"


@register_command("MediaPlayback", "StartOver")
def restart_media(view: ClusterView) -> str:
    """Play from the beginning."""
    view.set_enum("CurrentState", PLAYING)
    return "Playback restarted from beginning"


@register_command("MediaPlayback", "Previous")
def previous_content(view: ClusterView) -> str:
    """Answer that the previous content is shown. The state does not change."""
    return "Moved to previous content"


@register_command("MediaPlayback", "Next")
def next_content(view: ClusterView) -> str:
    """Answer that the next content is shown. The state does not change."""
    return "Moved to next content"


@register_command("MediaPlayback", "Rewind", "FastForward")
def wind_media(view: ClusterView, name: str, playback_speed: Any) -> str:
    """Wind back or forward, which sets the state to playing. Refused if neither playing nor paused."""
    _refuse_if(view, view["CurrentState"] == NOT_PLAYING, name)
    view.set_enum("CurrentState", PLAYING)
    return f"{'Rewinding' if name == 'Rewind' else 'Fast forwarding'} at {playback_speed}x speed"
