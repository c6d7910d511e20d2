"""The texts that an audit lets a server continue: some free, some that repeat themselves, so that n-grams draft too."""

AUDIT_PROMPTS = (
    "The old man walked down to the sea. The old man",
    '{"name": "Ada", "age": 31, "city": "Paris"}\n{"name": "Ben", "age": 27, "city": "Rome"}\n{"name": "',
    "Question: What is 2 + 3?\nAnswer: 5\nQuestion: What is 4 + 4?\nAnswer: 8\nQuestion: What is",
    "def add(a, b):\n    return a + b\n\ndef sub(a, b):\n    return a - b\n\ndef",
)
