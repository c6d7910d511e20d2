"""Many servers behind a router, simulated: how many cards a traffic needs, with and without speculation.

    draftscope forecast Llama-3.3-70B --traffic 20 --answer 256 --within 10

`step_times` says how long each step of a server takes and what a round writes, `simulate` has requests, servers and
their router, `sizing` counts cards. Needs simpy (the extra `app`).
"""
