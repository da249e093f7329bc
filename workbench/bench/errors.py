"""What a benchmark refuses, in a sentence."""


class BenchError(ValueError):
    """A data set, a server or a wish that nothing can be measured with; the message says what to do."""
