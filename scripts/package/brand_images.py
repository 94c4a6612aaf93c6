"""The pictures by which a person knows homerl in Home Assistant, drawn from `favicon.svg` and `logo.svg` of this folder.

`python -m package.brand_images` in scripts/ writes them again. It needs playwright and a Chromium, so the pictures are
stored. The site takes `favicon.svg` as it is.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from package.facts import ROOT

APP = ROOT / "envs/assistant/app/app"
BRAND = ROOT / "envs/assistant/app/custom_components/homerl/brand"
LIGHT, DARK, BOTH = "#212121", "#eeeeee", "#00897b"  # the word's colour on light and on dark pages, and where nobody knows


@dataclass(frozen=True)
class Picture:
    """A drawing at a height in pixels. `ink` is the colour of the word in it."""

    drawing: str
    height: int
    ink: str = LIGHT

    def read_drawing(self) -> str:
        """The text of the SVG file."""
        return Path(__file__).with_name(self.drawing).read_text("utf-8")


PICTURES: Mapping[Path, Picture] = {
    BRAND / "icon.png": Picture("favicon.svg", 256),
    BRAND / "icon@2x.png": Picture("favicon.svg", 512),
    BRAND / "logo.png": Picture("logo.svg", 128),
    BRAND / "logo@2x.png": Picture("logo.svg", 256),
    BRAND / "dark_logo.png": Picture("logo.svg", 128, DARK),
    BRAND / "dark_logo@2x.png": Picture("logo.svg", 256, DARK),
    APP / "icon.png": Picture("favicon.svg", 128),
    APP / "logo.png": Picture("logo.svg", 56, BOTH),  # the app store has no second one for dark pages
}


def render_pictures() -> Iterator[tuple[Path, bytes]]:
    """Each picture's place, and its PNG."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        for path, picture in PICTURES.items():
            style = f"body{{margin:0;color:{picture.ink}}} svg{{height:{picture.height}px;display:block;width:max-content}}"
            page.set_content(f"<style>{style}</style>{picture.read_drawing()}")
            yield path, page.locator("svg").screenshot(omit_background=True)
        browser.close()


def main() -> None:
    """Write the pictures."""
    for path, image in render_pictures():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(image)


if __name__ == "__main__":
    main()
