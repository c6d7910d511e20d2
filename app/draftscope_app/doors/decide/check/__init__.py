"""Is a drafter's output still the target's?"""
