"""The linker of the instrument's modules: what it takes, and that each refusal names the file and its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftscope.base.errors import DraftscopeError
from draftscope.trace.linker import link


def written(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def test_a_module_comes_once_and_behind_all_that_it_imports(tmp_path: Path) -> None:
    root = written(
        tmp_path,
        {
            "host/a.js": 'import { b } from "../run/b.js";\nimport { c } from "../base/c.js";\nexport const a = b;\n',
            "run/b.js": 'import { c as own } from "../base/c.js";\nexport const b = own;\n',
            "base/c.js": "export const c = 1;\nexport async function d() {}\nexport class E {}\n",
        },
    )
    script = link(root, "host/a.js")
    places = [script.index(f'modules["{name}"] = ') for name in ("base/c.js", "run/b.js", "host/a.js")]
    assert places == sorted(places) and script.count('modules["base/c.js"] = ') == 1
    assert 'const { c: own } = modules["base/c.js"];' in script
    assert "return { c, d, E };" in script
    assert 'return { "host/a.js": modules["host/a.js"] };' in script


def test_a_style_sheet_cannot_end_the_script_that_holds_it(tmp_path: Path) -> None:
    root = written(
        tmp_path, {"a.js": 'import own from "./a.css" with { type: "css" };\n', "a.css": 'i { content: "</script>"; }'}
    )
    assert 'own.replaceSync("i { content: \\"<\\/script>\\"; }");' in link(root, "a.js")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ('\nimport { no } from "./c.js";', r"a\.js:2 imports 'no', which c\.js does not export"),
        ('\nimport {\n  c,\n  no,\n} from "./c.js";', r"a\.js:2 imports 'no', which c\.js does not export"),
        ('import { c } from "./d.js";', r"a\.js:1 imports 'd\.js', and there is no such file"),
        ('import own from "./d.css" with { type: "css" };', r"a\.js:1 imports '\./d\.css', and there is no such file"),
        ('import { a } from "./a.js";', r"a\.js imports a\.js: a circle"),
        ('import { b } from "./b.js";', r"a\.js imports b\.js imports a\.js: a circle"),
        ('import {} from "./c.js";', r"a\.js:1 imports something unnamed"),
        ('import c from "./c.js";', r"a\.js:1: 'import c from \"\./c\.js\";' is none of the forms"),
        ('// one\nimport * as c from "./c.js";', r"a\.js:2: 'import \* as"),
        ('import "./c.js";', r"a\.js:1: 'import"),
        ("const a = 1;\nexport default a;", r"a\.js:2: 'export default a;' is none of the forms"),
        ("const a = 1;\nexport { a };", r"a\.js:2: 'export \{ a \};'"),
        ("export let a = 1;", r"a\.js:1: 'export let a = 1;'"),
    ],
)
def test_what_cannot_be_linked_is_named_with_its_line(tmp_path: Path, source: str, words: str) -> None:
    root = written(
        tmp_path,
        {"a.js": source, "b.js": 'import { a } from "./a.js";\nexport const b = 1;\n', "c.js": "export const c = 1;\n"},
    )
    with pytest.raises(DraftscopeError, match=words):
        link(root, "a.js")
