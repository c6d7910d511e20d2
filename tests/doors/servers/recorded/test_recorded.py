"""The recorded race and audits say which servers these were, when and where, and nothing of the machine's folders."""

from __future__ import annotations

import json

from draftscope_app.doors.servers.recorded.page import recorded


def test_a_real_race_and_its_audits_are_handed_out_with_their_servers_date_and_machine() -> None:
    record = recorded()
    plain, drafts = record["lanes"]
    assert plain["program"].startswith("vLLM 0.") and plain["drafted"] is None and drafts["drafted"] > 0
    for lane in record["lanes"]:
        times = [end for end, _, _ in lane["bursts"]]
        assert times == sorted(times) and sum(tokens for _, tokens, _ in lane["bursts"]) >= 16
        assert "".join(text for _, _, text in lane["bursts"]).strip()
    assert len(record["created"]) == 10 and "cores" in record["machine"] and record["prompt"]
    assert [audit["server"] for audit in record["audits"]] == [plain["name"], drafts["name"]]
    assert all(audit["verdict"] and audit["texts"] for audit in record["audits"])
    written = json.dumps(record)
    assert "/" not in "".join(lane["model"] for lane in record["lanes"]) and "assets" not in written
