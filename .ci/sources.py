"""The tracked files of this repository, as distributions are built from them.

    python .ci/sources.py FOLDER [REPOSITORY VERSION]

With a REPOSITORY, the https address of this one, the packages name it, and the links of their
READMEs lead to it, to the tag of this VERSION: they are read elsewhere too, on the package index.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGES = (
    ".",
    "integrations/attribot-batch",
    "integrations/attribot-checks",
    "integrations/attribot-server",
    "integrations/langchain-attribot",
    "integrations/llama-index-postprocessor-attribot",
)
LINK = re.compile(r"(?P<image>!?)(?P<text>\[[^\]]*\])\((?P<path>[^\s)#:]+)(?P<place>#[^\s)]*)?\)")
PICTURE = re.compile(r'(?P<name>src|srcset)="(?P<path>[^":]+)"')


def copy(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    # Whoever owns the clone: a container's user often does not.
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(name, folder / name)


def publish(root: Path, package: Path, repository: str, version: str) -> None:
    """Name the repository in a package's metadata and in the links of its README."""

    def address(relative: str, kind: str | None = None) -> str:
        file = (package / relative).resolve()
        if not file.exists():
            raise SystemExit(f"{package / 'README.md'} links to {relative}, which is missing")
        kind = kind or ("tree" if file.is_dir() else "blob")
        return f"{repository}/{kind}/v{version}/{file.relative_to(root.resolve())}"

    def absolute(link: re.Match[str]) -> str:
        target = address(link["path"], "raw" if link["image"] else None) + (link["place"] or "")
        return f"{link['image']}{link['text']}({target})"

    def picture(link: re.Match[str]) -> str:
        return f'{link["name"]}="{address(link["path"], "raw")}"'

    readme = package / "README.md"
    text = LINK.sub(absolute, readme.read_text("utf-8"))
    readme.write_text(PICTURE.sub(picture, text), "utf-8")
    project = package / "pyproject.toml"
    urls = {
        "Repository": repository,
        "Documentation": f"{repository}/tree/v{version}/docs",
        "Changelog": f"{repository}/blob/v{version}/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }
    lines = "".join(f'{name} = "{url}"\n' for name, url in urls.items())
    project.write_text(f"{project.read_text('utf-8')}\n[project.urls]\n{lines}", "utf-8")


if __name__ == "__main__":
    folder, *address = sys.argv[1:]
    copy(Path(folder))
    if address:
        repository, version = address
        for name in PACKAGES:
            publish(Path(folder), Path(folder) / name, repository.rstrip("/"), version)
