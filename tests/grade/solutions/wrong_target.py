def draw(weights, rng):
    u, total = rng(), 0.0
    for token, weight in enumerate(weights):
        total += weight
        if u < total:
            return token
    return len(weights) - 1


def accept_or_correct(p, q, token, rng):
    if rng() < min(1.0, p[token] / q[token]):
        return True, token
    return False, draw(p, rng)
