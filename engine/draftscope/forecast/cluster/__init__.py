"""Many servers behind a router, simulated: how many cards a traffic needs, with and without speculation.

    draftscope forecast Llama-3.3-70B --traffic 20 --answer 256 --within 10

`traffic` says what arrives, `step_times` how long each step of a server takes, `speculation` what a round writes and
when it is switched off; `server` batches, `simulate` routes, `sizing` counts cards. Needs simpy (the extra `app`).
"""
