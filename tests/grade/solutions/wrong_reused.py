def accept_or_correct(p, q, token, rng):
    u = rng()
    if u < min(1.0, p[token] / q[token]):
        return True, token
    left = [max(x - y, 0.0) for x, y in zip(p, q, strict=True)]
    total = 0.0
    for other, weight in enumerate(left):
        total += weight / sum(left)
        if u < total:
            return False, other
    return False, len(p) - 1
