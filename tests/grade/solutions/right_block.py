"""Block verification (2403.10444) for two tokens: exact too, and it keeps more than the token rule."""


def draw(weights, rng):
    u, total = rng(), 0.0
    for token, weight in enumerate(weights):
        total += weight
        if u < total:
            return token
    return len(weights) - 1


def cut(weights, top_p):
    order = sorted(range(len(weights)), key=lambda token: -weights[token])
    kept, total = set(), 0.0
    for token in order:
        if total < top_p - 1e-9:
            kept.add(token)
            total += weights[token]
    return [weight / total if token in kept else 0.0 for token, weight in enumerate(weights)]


def left_over(p, q, weight):
    return [max(weight * x - y, 0.0) for x, y in zip(p, q, strict=True)]


def verify_chain(p_rows, q_rows, draft, top_p, rng):
    p_rows, q_rows = [cut(row, top_p) for row in p_rows], [cut(row, top_p) for row in q_rows]
    weights = [1.0]
    for p, q, token in zip(p_rows, q_rows, draft, strict=False):
        weights.append(min(1.0, weights[-1] * p[token] / q[token]))
    mass = sum(left_over(p_rows[1], q_rows[1], weights[1]))
    thresholds = [weights[1] if weights[1] == 1 else mass / (mass + 1 - weights[1]), weights[2]]
    passed = [place for place, h in enumerate(thresholds, start=1) if rng() < h]
    tau = max(passed, default=0)
    if tau == 2:
        return [*draft, draw(p_rows[2], rng)]
    left = left_over(p_rows[tau], q_rows[tau], weights[tau])
    rest = [x / sum(left) for x in left] if sum(left) else p_rows[tau]
    return [*draft[:tau], draw(rest, rng)]
