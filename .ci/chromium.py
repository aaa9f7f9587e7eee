"""Brings a browser for the tests: the system's, else Playwright's own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.browser import executable

SECONDS = 600  # for a download


def run(*command: str) -> bool:
    print(*command, flush=True)
    try:
        return subprocess.run(command, timeout=SECONDS).returncode == 0
    except (OSError, subprocess.TimeoutExpired) as error:
        print(error)
        return False


def by_apt() -> bool:
    """Debian's and Ubuntu's, as root or with a sudo that asks nothing."""
    if not shutil.which("apt-get"):
        return False
    sudo = [] if os.getuid() == 0 else ["sudo", "--non-interactive"]
    options = ("-qq", "--yes", "--no-install-recommends")
    return run(*sudo, "apt-get", "update", "-qq") and run(
        *sudo, "apt-get", "install", *options, "chromium"
    )


def main() -> str | None:
    if executable() or by_apt() or run(sys.executable, "-m", "playwright", "install", "chromium"):
        return None
    return "No browser could be installed; install Chromium, or set CHROMIUM to the path of one."


if __name__ == "__main__":
    sys.exit(main())
