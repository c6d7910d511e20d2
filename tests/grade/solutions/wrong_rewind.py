def rewind(cache, drafted, accepted):
    return cache[: len(cache) - drafted + min(accepted + 1, drafted)]


def rewind_state(states, accepted):
    return states[accepted]
