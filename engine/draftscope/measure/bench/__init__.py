"""The benchmark: drafters x kinds of text x temperature x gamma, beside other programs on the same weights.

    draftscope bench --quick --out bench

or, where only the engine is installed, `save(benchmark(load(), QUICK, *texts(QUICK)), folder)`.

How it measures. Every run writes exactly the same number of tokens (ends of text are not heeded), from token ids in to
token ids out, prefill included, one stopwatch for all. Each run is a fresh session, so no cache and no n-gram index
outlives it. One pass over everything is warm-up and not counted; then each repeat passes over all cases, and within a
case the systems follow each other, A B C, so that a machine that slows down slows all of them. A ratio is taken within
the same repeat of the same prompt. Continuations that loop are counted and kept out of the headline.

`plan` says what runs, `texts` and `cases` on which texts, `systems` and `peers` say which systems run; `runner` runs
them; `statistics`, `rounds` and `rows` fold the runs, `report` writes them down; `benchmark` does all
of it.
"""
