"""The 24 claims. Those without a `judge` cannot be judged from files that a command writes."""

from __future__ import annotations

from draftscope.claims import judges
from draftscope.claims.claim import Claim

BENCH = "draftscope bench --quick"
SMALL = "draftscope bench --quick --no-peers --kinds code,verse"  # minutes on two cores

CLAIMS: tuple[Claim, ...] = (
    Claim(1, "The output is exactly the target's.", BENCH, "every greedy text equals plain's", judges.exact),
    Claim(2, "Alpha .8 and gamma 5 give about 4.5 tokens a round.", BENCH,
          "value of (1 - a^(g+1)) / (1 - a), and its error on measured chains", judges.tau_formula),
    Claim(3, "It is 2 to 3 times as fast at batch 1.", BENCH,
          "on every kind of text the best setting's interval lies above 2", judges.two_to_three),
    Claim(4, "It pays above an acceptance of .55 to .60 and hurts below .5.", BENCH,
          "break-even alpha of measured chains lies between .5 and .6", judges.break_even),
    Claim(5, "A bad draft costs time.", BENCH, "settings with under 1.3 tokens per round have speedups below 1",
          judges.hopeless),
    Claim(6, "Code accepts more than poetry.", BENCH, "speedups on code and on verse, interval against interval",
          judges.code_over_verse),
    Claim(7, "A dynamic draft length beats a fixed one.", "draftscope regret --quick",
          "each policy's speedup over the best fixed setting has its interval above 1", judges.dynamic),
    Claim(8, "Trees beat chains.", f"{SMALL} --gamma 6,10 --drafters draft,sampled-tree,topk-tree",
          "trees and chains of as many nodes, interval against interval", judges.trees_over_chains),
    Claim(9, "With Medusa or EAGLE, 2x becomes 4 to 5x.", BENCH,
          "on every kind of text the best head's interval lies above 4", judges.heads_far_ahead),
    Claim(10, "Lookahead needs no drafter but is slower than EAGLE.", BENCH,
          "the best EAGLE against lookahead, by kind of text", judges.lookahead_behind),
    Claim(11, "Mamba drafters keep constant memory.",
          f"{SMALL} --draft mamba2 --drafters draft --context 64,256,960",
          "bytes of the draft's state by context", judges.constant_state),
    Claim(12, "CUDA graphs matter.", "make gpu",
          "speeds of the same runs with graphs over those without: all above 1, with equal tokens", judges.graphs,
          why_not="it needs a GPU", elsewhere=True),
    Claim(13, "Three tiers beat two.", BENCH, "the cascade's best against the draft model's best",
          judges.cascade_over_two),
    Claim(14, "Lossy variants are faster.",
          f"{SMALL} --drafters draft --rules block,typical,lenient --temperature 1",
          "lossy against exact of the same drafter and gamma", judges.lossy_faster),
    Claim(15, "Latency gets jittery but feels faster.", BENCH,
          "99th percentile of gaps of the fastest setting over plain's, and its speedup", judges.jitter),
    Claim(16, "Draft latency matters more than draft quality.",
          f"{SMALL} --drafters draft --draft draft-tiny",
          "of two drafts, one cheaper and one that agrees more often, which is faster",
          judges.latency_over_quality),
    Claim(17, "Fine-tuning the draft on your text raises acceptance by 20 to 40%.",
          "draftscope train-drafter --target MODEL --kind draft --warm-start DIR --text DIR --out DIR",
          "acceptance on held-out answers before and after",
          judges.fine_tuned, why_not="it needs your text"),
    Claim(18, "2 to 3x up to batch 10, slower from batch 32 on.",
          f"{SMALL} --drafters draft,ngram --batch 1,4,16,32,64",
          "the best speedup by batch", judges.by_batch),
    Claim(19, "Long contexts bring the gain back.",
          f"{SMALL} --drafters draft,ngram --context 64,256,960",
          "the best speedup at the longest context against that at the shortest", judges.long_context),
    Claim(20, "Answers under 20 tokens do not pay it back.", "draftscope advise --json",
          "N* = extra prefill / (T1 (1 - 1/S))", judges.short_answers),
    Claim(21, "A mixture of experts gains less: new tokens wake new experts.",
          f"{SMALL} --drafters draft,ngram --target experts --draft experts-draft",
          "the same settings on the dense target and on the experts, interval against interval",
          judges.experts_gain_less),
    Claim(22, "Speculative speculative decoding doubles the speed once more.", BENCH, "SSD's best against the draft's",
          judges.ssd_doubles),
    Claim(23, "Native multi-token prediction makes it built in.", BENCH, "needs a target with its own MTP layers",
          why_not="no target with its own multi-token prediction layers is embedded", elsewhere=True),
    Claim(24, "It takes 70% off the cloud bill.", BENCH, "1 - 1/S, with the speedup S of the best setting",
          judges.cloud_bill),
)  # fmt: skip


def find(number: int) -> Claim | None:
    """A claim by its number."""
    return next((claim for claim in CLAIMS if claim.number == number), None)
