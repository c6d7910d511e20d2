"""An audit's report as JUnit XML, and as Markdown for a pull request. Both show what was tested, row by row."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any
from xml.etree import ElementTree

from draftscope.base.markdown import table
from draftscope.servers.audit.coverage import of_report

KINDS = {"greedy identity": "greedy", "log-probabilities": "log-probabilities"}  # row -> difference; others: sampled
MARKS = {0: "No difference found", 1: "Different", 2: "Could not be tested", 3: "Undecided"}


def junit(report: Mapping[str, Any], known: Collection[str] = ()) -> str:
    """A test case a row: a difference fails, unless it is `known`; what is undecided or not tested is skipped."""
    rows = of_report(report)
    failed = [name for name, status, _ in rows if status == "different" and KINDS.get(name, "sampled") not in known]
    skipped = [name for name, status, _ in rows if status not in ("different", "no difference")]
    counts = {"tests": len(rows), "failures": len(failed), "errors": int(report["incomplete"]), "skipped": len(skipped)}
    about = {"name": "draftscope audit"} | {name: str(count) for name, count in counts.items()}
    suite = ElementTree.Element("testsuite", about)
    for name, status, reason in rows:
        case = ElementTree.SubElement(suite, "testcase", name=name, classname="draftscope.audit")
        if name in failed:
            ElementTree.SubElement(case, "failure", message=report["verdict"]).text = reason
        elif name in skipped:
            ElementTree.SubElement(case, "skipped", message=f"{status}: {reason}")
    if report["incomplete"]:
        ElementTree.SubElement(suite[0], "error", message=report["verdict"])
    ElementTree.SubElement(suite, "system-out").text = report["verdict"]
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def markdown_summary(report: Mapping[str, Any], known: Collection[str], code: int) -> str:
    """The verdict and what was tested."""
    both = sorted(set(known) & set(report["differences"]))
    noted = f"\n\nThe baseline has this difference too: {', '.join(both)}." if both else ""
    settings = ", ".join(f"{name} {value:g}" for name, value in report["settings"]["sampling"].items())
    return (
        f"## Draftscope audit: {MARKS[code]}\n\n{report['verdict']}{noted}\n\n"
        f"`{report['server']}` against `{report['target']}` ({settings}), {report['created']}\n\n"
        f"{table(('what', 'result', 'detail'), of_report(report))}\n\n"
    )
