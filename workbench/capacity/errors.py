"""What a plan refuses, with what to do about it."""


class PlanError(ValueError):
    """A model, a file or a wish that no plan can be made from; the message says what to do."""
