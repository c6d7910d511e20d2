"""The order in which a screen reader reads a page, held against the order in which the page is seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

CONTROLS = {
    "button", "link", "textbox", "searchbox", "combobox", "listbox", "slider", "spinbutton", "checkbox", "radio",
    "tab", "switch", "menuitem", "DisclosureTriangle",
}  # fmt: skip
SPOKEN = CONTROLS | {"heading", "navigation", "region", "complementary", "search"}  # each needs a name
WHOLE = {"navigation", "region", "complementary", "search"}  # hold others, which are seen one by one
SLACK = 3.0  # pixels
SEEN = """function () {
    let { left, top, right, bottom } = this.getBoundingClientRect();
    for (let e = this; e; e = e.assignedSlot ?? e.parentElement ?? e.getRootNode().host) {
        const { overflow, position } = getComputedStyle(e);
        if (position === 'fixed') return null;
        if (overflow === 'visible' || e === this) continue;
        const box = e.getBoundingClientRect();
        [left, top] = [Math.max(left, box.left), Math.max(top, box.top)];
        [right, bottom] = [Math.min(right, box.right), Math.min(bottom, box.bottom)];
    }
    return [left, top, right, bottom];
}"""


@dataclass(frozen=True)
class Spoken:
    """A heading, a control or a landmark. `box` is where it is seen: left, top, right, bottom; None where it is not."""

    role: str
    name: str
    box: tuple[float, float, float, float] | None

    def __str__(self) -> str:
        return f"{self.role} '{self.name[:40]}'"

    def is_seen_before(self, other: Spoken) -> bool:
        """Whether it stands above the other in the same column, or left of it in the same row. What stands in columns
        beside each other is read column by column."""
        if self.box is None or other.box is None:
            return False
        left, top, right, bottom = self.box
        its_left, its_top, its_right, its_bottom = other.box
        above = bottom <= its_top + SLACK and left < its_right - SLACK and right > its_left + SLACK
        shared = min(bottom, its_bottom) - max(top, its_top)  # of their heights: more than half is a row
        beside = right <= its_left + SLACK and shared > min(bottom - top, its_bottom - its_top) / 2
        return above or beside


def spoken(page: Any) -> list[Spoken]:
    """What a screen reader says of the page, in its order."""
    devtools = page.context.new_cdp_session(page)
    devtools.send("Accessibility.enable")
    nodes = {node["nodeId"]: node for node in devtools.send("Accessibility.getFullAXTree")["nodes"]}
    root = next(node for node in nodes.values() if "parentId" not in node)
    found = [_spoken(devtools, node) for node in _below(nodes, root) if _role(node) in SPOKEN]
    devtools.detach()
    return found


def misread(said: list[Spoken]) -> list[str]:
    """Controls, headings and landmarks without a name, and whatever is seen before what is said before it."""
    nameless = [f"a {each.role} at {each.box} has no name" for each in said if not each.name]
    parts = [each for each in said if each.role not in WHOLE and each.box is not None]
    return nameless + [f"{two} is seen before {one}" for one, two in pairwise(parts) if two.is_seen_before(one)]


def _below(nodes: dict[str, Any], node: Any) -> Iterator[Any]:
    if not node["ignored"]:
        yield node
    for child in node.get("childIds", []):
        if child in nodes:
            yield from _below(nodes, nodes[child])


def _role(node: Any) -> str:
    return str(node.get("role", {}).get("value", ""))


def _spoken(devtools: Any, node: Any) -> Spoken:
    found = devtools.send("DOM.resolveNode", {"backendNodeId": node["backendDOMNodeId"]})["object"]["objectId"]
    asked = {"objectId": found, "functionDeclaration": SEEN, "returnByValue": True}
    box = devtools.send("Runtime.callFunctionOn", asked)["result"].get("value")
    seen = box and box[0] >= 0 and box[2] - box[0] > SLACK and box[3] - box[1] > SLACK
    return Spoken(_role(node), str(node.get("name", {}).get("value", "")).strip(), tuple(box) if seen else None)
