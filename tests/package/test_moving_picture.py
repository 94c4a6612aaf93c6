"""README's moving picture is the one that this code draws, and needs neither a script nor a network."""

from __future__ import annotations

from xml.etree import ElementTree

from package.moving_picture import PICTURE, draw_moving_picture


def test_the_moving_picture_is_drawn_anew_with_the_same_bytes() -> None:
    drawn = draw_moving_picture()
    assert drawn == PICTURE.read_text("utf-8"), "./scripts/regenerate draws it again"
    tags = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(drawn).iter()}
    assert not tags & {"script", "image", "foreignObject"} and "url(" not in drawn and len(drawn) < 200_000
    for needed in ("prefers-color-scheme: dark", "prefers-reduced-motion: no-preference", "<title"):
        assert needed in drawn
