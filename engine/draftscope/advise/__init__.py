"""Advice: should this target speculate on these prompts, with which drafter, how long, and what does it save?

    draftscope advise --prompts mine.jsonl --concurrency 4

`question` is what is asked. `probed_acceptance` measures acceptance on the prompts; costs are the calibration's
(`base/costs.py`). `speed_model` predicts every candidate from both, `proof` runs the best against plain decoding and
the runner-up, `advice_verdict` decides, `limits` says where the decision would change, `sentences` says it, and
`servers` writes it as settings of other engines. `planned` does the same with acceptance and costs that were measured
elsewhere; it runs nothing. `notebook` is the same for Python:

    from draftscope.advise.notebook import advice
    advice(draftscope.load(), prompts, concurrency=4)
"""
