def draw(weights, rng):
    u, total = rng(), 0.0
    for token, weight in enumerate(weights):
        total += weight
        if u < total:
            return token
    return len(weights) - 1


def residual(p, q):
    left = [max(x - y, 0.0) for x, y in zip(p, q, strict=True)]
    return [x / sum(left) for x in left] if sum(left) else p


def keep_top(weights, top_p):
    order = sorted(range(len(weights)), key=lambda token: -weights[token])
    kept = []
    while sum(weights[token] for token in kept) < top_p - 1e-9:
        kept.append(order[len(kept)])
    total = sum(weights[token] for token in kept)
    return [weight / total if token in kept else 0.0 for token, weight in enumerate(weights)]


def verify_chain(p_rows, q_rows, draft, top_p, rng):
    p_rows = [keep_top(row, top_p) for row in p_rows]
    for place, token in enumerate(draft):
        if rng() >= min(1.0, p_rows[place][token] / q_rows[place][token]):
            return [*draft[:place], draw(residual(p_rows[place], q_rows[place]), rng)]
    return [*draft, draw(p_rows[-1], rng)]
