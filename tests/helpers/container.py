"""The steps of a Dockerfile in folders: where no builder is at hand, they are tried with chroot.

`base` is a folder with a Debian that has Python; it stands for each image that `FROM` names. Only the instructions and forms
that our files have are known, and any other is an error. It needs root.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
UNUSED = {"ARG", "EXPOSE", "LABEL", "VOLUME"}  # they change nothing in the folder


@dataclass
class Image:
    """A folder, and how its program is started."""

    root: Path
    user: str = "root"
    folder: str = "/"
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    health: list[str] = field(default_factory=list)

    def chroot(self, *command: str, **environment: str) -> list[str]:
        """The command line that runs a command as the image's user."""
        variables = {"PATH": PATH, "HOME": self.folder, "PIP_CERT": str(CERTIFICATES)} | environment
        given = [f"{name}={value}" for name, value in variables.items()]
        enter = ["chroot", f"--userspec={self.user}", str(self.root), "/usr/bin/env", "-i", f"--chdir={self.folder}"]
        return [*enter, *given, *command]


def instructions(file: Path) -> Iterator[tuple[str, str]]:
    """The instructions of a Dockerfile, without comments."""
    lines = (line for line in file.read_text().splitlines() if not line.startswith("#"))
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        if line.strip():
            name, _, rest = line.partition(" ")
            yield name, rest.strip()


def build(file: Path, context: Path, base: Path, work: Path) -> Image:
    """The last stage of a Dockerfile. Raises `ValueError` for an instruction that is not known."""
    stages: dict[str, Image] = {}
    image = Image(work)
    for name, rest in instructions(file):
        match name:
            case "FROM":
                image = Image(work / f"stage{len(stages)}")
                subprocess.run(["cp", "-a", "--reflink=auto", str(base), str(image.root)], check=True)
                shutil.copy(CERTIFICATES, image.root / "etc/ssl/certs/")
                shutil.copy("/etc/resolv.conf", image.root / "etc/resolv.conf")
                stages[rest.partition(" AS ")[2] or str(len(stages))] = image
            case "COPY":
                (*options,) = (word for word in shlex.split(rest) if word.startswith("--"))
                *sources, target = (word for word in shlex.split(rest) if not word.startswith("--"))
                origin = stages[options[0].partition("=")[2]].root if options else context
                _copy([origin / source.lstrip("/") for source in sources], image.root, target)
            case "RUN":
                subprocess.run(image.chroot("/bin/sh", "-ec", rest), check=True)
            case "USER":
                image.user = rest
            case "WORKDIR":
                image.folder = rest
            case "ENTRYPOINT":
                image.entrypoint = json.loads(rest)
            case "CMD":
                image.command = json.loads(rest)
            case "HEALTHCHECK":
                image.health = json.loads(rest[rest.index("[") :])
            case _ if name not in UNUSED:
                raise ValueError(f"{file}: {name} is not known here")
    return image


def _copy(sources: list[Path], root: Path, target: str) -> None:
    """Copy as Docker does: of a folder its contents, of several files each into the target."""
    where = root / target.lstrip("/")
    for source in sources:
        if source.is_dir():
            where.mkdir(parents=True, exist_ok=True)
            subprocess.run(["cp", "-a", f"{source}/.", str(where)], check=True)
        else:
            into = where / source.name if target.endswith("/") else where
            into.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, into)


@contextmanager
def running(image: Image, *arguments: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """The program of an image, which is stopped on leaving."""
    proc = image.root / "proc"
    subprocess.run(["mount", "-t", "proc", "proc", str(proc)], check=True)
    try:
        command = [*image.entrypoint, *(arguments or image.command)]
        process = subprocess.Popen(image.chroot(*command, **environment))
        try:
            yield process
        finally:
            process.terminate()
            process.wait(200)
    finally:
        subprocess.run(["umount", "--lazy", str(proc)], check=True)
