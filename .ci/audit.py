"""Known vulnerabilities of pinned packages, as pip-audit finds them in PyPI's database.

    python .ci/audit.py PINS REPORT.json

Ends with an error if there are any, and if the database could not be asked: then nothing is known.
"""

import json
import subprocess
import sys
from pathlib import Path

pins, report = map(Path, sys.argv[1:])
report.unlink(missing_ok=True)
command = [sys.executable, "-m", "pip_audit", "--requirement", str(pins)]
command += ["--no-deps", "--disable-pip", "--progress-spinner", "off"]
command += ["--format", "json", "--output", str(report)]
ran = subprocess.run(command, capture_output=True, text=True)
if not report.exists():
    said = (ran.stderr.strip() or "no reason given").splitlines()[-1]
    sys.exit(f"Nothing was audited: pip-audit could not reach its database, or failed ({said}).")
packages = json.loads(report.read_text())["dependencies"]
audited = [one for one in packages if "skip_reason" not in one]
skipped = [one for one in packages if "skip_reason" in one]
if not audited:
    reason = skipped[0]["skip_reason"] if skipped else "no packages"
    sys.exit(f"Nothing was audited: pip-audit could not reach its database ({reason}).")
for one in skipped:
    sys.stderr.write(f"not audited: {one['skip_reason']}\n")
vulnerable = [
    f"{one['name']} {one['version']}: {found['id']}, fixed in {', '.join(found['fix_versions'])}"
    for one in audited
    for found in one["vulns"]
]
if vulnerable:
    sys.exit("\n".join(vulnerable))
sys.stdout.write(f"{len(audited)} packages, none with a known vulnerability\n")
