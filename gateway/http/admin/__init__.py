"""The admin API: OpenAI's organisation objects where OpenAI has them, our own in the same style beside them.

One file per resource. Each route checks its body, makes one change with its audit row in one transaction that
is committed before the answer, and shows the result.
"""
