"""A forecast of speculation on hardware that is not at hand, held to published measurements.

    draftscope forecast Llama-3.3-70B --drafter eagle3 --card H100 --tp 4 --concurrency 32
    draftscope forecast --validate published.csv

`architecture` says what a model reads and multiplies, `hardware_tables` what it runs on, `drafter_forwards` what a
drafter adds; `cost` makes milliseconds of them. `acceptance_priors` has tokens a round where nobody has measured them,
`runnable` refuses what cannot be run, `forecast` has the answer, `held` what of it was held to published speedups;
`cluster` simulates many servers. `record` reads a published record, `backtest` holds the forecast to it. The tables
are CSV files with a source in every row. Nothing imports torch.
"""
