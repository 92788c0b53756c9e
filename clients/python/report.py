"""Writes what became of each test as a line of JSON, to the file that AKUNU_REPORT names."""

import json
import os


def _reason(report):
    if report.skipped and isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    if hasattr(report, "wasxfail"):
        return report.wasxfail
    crash = getattr(report.longrepr, "reprcrash", None)
    return crash.message if crash else str(report.longrepr or "")


def _name(report):
    name, place = report.nodeid.split("::", 1)[-1], report.location[2]
    # schemathesis names its operations only where a test is.
    return name if "[" in name or "[" not in place else name + place[place.index("[") :]


def pytest_runtest_logreport(report):
    # The call says it all, unless the test did not get so far or failed when it was put away.
    if report.when != "call" and report.passed:
        return
    if report.when == "teardown" and report.skipped:
        return
    # A test that was expected to fail is one that does not apply, whether it failed or not.
    outcome = "skipped" if hasattr(report, "wasxfail") else report.outcome
    line = {
        "test": _name(report),
        "outcome": outcome,
        "reason": "" if outcome == "passed" else _reason(report)[:2000],
        "seconds": round(report.duration, 2),
    }
    with open(os.environ["AKUNU_REPORT"], "a", encoding="utf-8") as out:
        out.write(json.dumps(line) + "\n")
