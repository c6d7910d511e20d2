"""All five, as the papers write them."""


def draw(weights, rng):
    u, total = rng(), 0.0
    for token, weight in enumerate(weights):
        total += weight
        if u < total:
            return token
    return len(weights) - 1


def keep_top(weights, top_p):
    order = sorted(range(len(weights)), key=lambda token: -weights[token])
    kept = []
    while sum(weights[token] for token in kept) < top_p - 1e-9:
        kept.append(order[len(kept)])
    total = sum(weights[token] for token in kept)
    return [weight / total if token in kept else 0.0 for token, weight in enumerate(weights)]


def residual(p, q):
    left = [max(x - y, 0.0) for x, y in zip(p, q, strict=True)]
    return [x / sum(left) for x in left] if sum(left) else p


def accept_or_correct(p, q, token, rng):
    if rng() < min(1.0, p[token] / q[token]):
        return True, token
    return False, draw(residual(p, q), rng)


def verify_chain(p_rows, q_rows, draft, top_p, rng):
    kept = []
    for p, q, token in zip(p_rows, q_rows, draft, strict=False):
        p, q = keep_top(p, top_p), keep_top(q, top_p)
        accepted, token = accept_or_correct(p, q, token, rng)
        kept.append(token)
        if not accepted:
            return kept
    return [*kept, draw(keep_top(p_rows[-1], top_p), rng)]


def verify_siblings(p, q, children, rng):
    for place, child in enumerate(children):
        if rng() * q[child] < p[child]:
            return place, child
        p = residual(p, q)
        rest = 1 - q[child]
        q = [0.0 if x == child else share / rest for x, share in enumerate(q)]
    return None, draw(p, rng)


def rewind(cache, drafted, accepted):
    return cache[: len(cache) - drafted + accepted]


def rewind_state(states, accepted):
    return states[accepted]


def commit(text, tokens, eos, limit):
    text = list(text)
    for token in tokens:
        text.append(token)
        if token in eos or len(text) >= limit:
            return text, True
    return text, False
