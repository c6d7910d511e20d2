def commit(text, tokens, eos, limit):
    text = (text + tokens)[:limit]
    return text, text[-1] in eos or len(text) == limit
