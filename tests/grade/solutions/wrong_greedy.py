def draw(weights, rng):
    u, total = rng(), 0.0
    for token, weight in enumerate(weights):
        total += weight
        if u < total:
            return token
    return len(weights) - 1


def accept_or_correct(p, q, token, rng):
    if p[token] >= q[token]:
        return True, token
    left = [max(x - y, 0.0) for x, y in zip(p, q, strict=True)]
    return False, draw([x / sum(left) for x in left], rng)
