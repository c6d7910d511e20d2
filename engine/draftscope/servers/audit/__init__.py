"""Is a server's output still its target's? `audit` asks it for texts and tests them, sequentially, at a chosen chance
of a false alarm.

`warp` computes the distribution a server should sample from, `facts` reduces it to the few numbers that the tests need,
`bets` holds the tests (each a test martingale), `evidence` adds them up, `missed` says what could have been overlooked,
`rounds` asks the server, `greedy` compares greedy tokens, `pairs` compares two servers without weights, `report` and
`verdict` say what was found.
"""
