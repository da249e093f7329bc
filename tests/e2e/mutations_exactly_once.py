"""The exactly-once test can fail: each mutant takes one protection away, and the short test must turn red.

Run by `make chaos ARGS=--mutants`. A mutant changes a copy of the tree; one whose text is not found is an error, so
that a protection which moved cannot go unproved.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEST = "tests/e2e/test_exactly_once.py"
TIMEOUT_S = 1200
LEDGER = "gateway/ledger"
SETTLING = f"{LEDGER}/repository/settling.py"
GUARD = r"ON CONFLICT DO NOTHING RETURNING request_id"
ROW_ORDER = r'ORDER BY row\.budget_id COLLATE "C", row\.period_key COLLATE "C"'
KEY_ORDER = r'ORDER BY budget_id COLLATE "C", period_key COLLATE "C"'
HELD_IN_HOLDS = (
    (
        r"held_nanousd \+ spent_nanousd \+ held <= limit_nanousd",
        "spent_nanousd + held <= limit_nanousd",
    ),
    (r"row\.held_nanousd \+ row\.spent_nanousd \+ wanted", "row.spent_nanousd + wanted"),
    (
        r"budget_period\.held_nanousd \+ budget_period\.spent_nanousd \+ EXCLUDED",
        "budget_period.spent_nanousd + EXCLUDED",
    ),
)
"""Where the statements of a reservation compare what is held: the looks without and with a lock, and the last one."""


@dataclass(frozen=True)
class Edit:
    path: str
    pattern: str
    replacement: str


@dataclass(frozen=True)
class Mutant:
    name: str
    edits: tuple[Edit, ...]
    shown_by: str
    """What the failure has to say, or it failed for another reason."""


MUTANTS = (
    Mutant(
        "a guard that lets everybody pass",
        (
            Edit(
                SETTLING,
                GUARD,
                "ON CONFLICT (request_id) DO UPDATE SET tenant_id = EXCLUDED.tenant_id RETURNING request_id",
            ),
        ),
        r"charged 2 times|its attempts|\.rejected",  # an attempt's own key is the second line
    ),
    Mutant("a guard without ON CONFLICT", (Edit(SETTLING, GUARD, "RETURNING request_id"),), r"\.rejected"),
    Mutant(
        "no spool",
        (
            Edit(
                f"{LEDGER}/spool.py",
                r"(def append\(.*?\n)(        with self\._guard:)",
                r"\1        return\n\2",
            ),
        ),
        r"it has no event|the ledger None",
    ),
    Mutant(
        "requests admitted in an outage are in memory alone",
        (Edit(f"{LEDGER}/service.py", r"await self\._unrecorded\.note\(hold\)", "pass"),),
        r"it has no event|the ledger None",
    ),
    Mutant(
        "no lock order",
        (
            Edit(f"{LEDGER}/repository/budgets.py", ROW_ORDER, "ORDER BY random()"),
            Edit(f"{LEDGER}/repository/holds.py", ROW_ORDER, "ORDER BY random()"),
            Edit(f"{LEDGER}/repository/holds.py", KEY_ORDER, "ORDER BY random()"),
            Edit(SETTLING, KEY_ORDER, "ORDER BY random()"),
        ),
        r"deadlocks",
    ),
    Mutant(
        "a decision that forgets what is held",
        (
            Edit(
                f"{LEDGER}/decide.py", r"row\.spent_nanousd \+ row\.held_nanousd \+ ", "row.spent_nanousd + "
            ),
            *(Edit(f"{LEDGER}/repository/holds.py", *change) for change in HELD_IN_HOLDS),
        ),
        r"over its limit",
    ),
)


def main() -> int:
    verdicts = {mutant.name: _verdict(mutant) for mutant in MUTANTS}
    print("\nmutant                                              verdict")
    for name, verdict in verdicts.items():
        print(f"{name:50}  {verdict}")
    return 0 if all(verdict.startswith("red") for verdict in verdicts.values()) else 1


def _verdict(mutant: Mutant) -> str:
    print(f"\n== {mutant.name}", flush=True)
    with tempfile.TemporaryDirectory(prefix="tollway-mutant-") as directory:
        copy = Path(directory) / "tree"
        _copy_tree(copy)
        for edit in mutant.edits:
            _apply(copy / edit.path, edit)
        command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", TEST]
        code, output = _run(command, copy, os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(copy)})
    said = [line for line in output.splitlines() if line.startswith("E  ")]
    print("\n".join(line[:200] for line in said[:8]))
    if code == 0:
        return "GREEN: nothing protects this"
    reasons = [line for line in said if re.search(mutant.shown_by, line)]
    return f"red: {len(reasons)} findings" if reasons else f"failed, but not for it (exit {code})"


def _run(command: list[str], directory: Path, environ: Mapping[str, str]) -> tuple[int, str]:
    with subprocess.Popen(
        command, cwd=directory, env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as test:
        try:
            output, _ = test.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            test.send_signal(signal.SIGINT)  # it ends its cluster itself
            output, _ = test.communicate()
        return test.returncode, output


def _copy_tree(target: Path) -> None:
    """What is under version control, as it stands in the working tree."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in listed.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def _apply(path: Path, edit: Edit) -> None:
    text = path.read_text(encoding="utf-8")
    changed, count = re.subn(edit.pattern, edit.replacement, text, flags=re.DOTALL)
    assert count, f"{edit.path} has no {edit.pattern!r}"
    path.write_text(changed, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
