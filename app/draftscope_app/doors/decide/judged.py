"""Verdicts on claims, as this door words them."""

from draftscope.claims.claim import ClaimVerdict

SHORT = {  # where no condition follows, and beside figures that decide nothing
    ClaimVerdict.ONLY_IF: "holds only sometimes",
    ClaimVerdict.UNTESTED: "no verdict here",
}
OPEN = (ClaimVerdict.UNMEASURED, ClaimVerdict.UNTESTED)
