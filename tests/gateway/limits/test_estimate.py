"""Estimates: careful at first, then as the model's calls have been."""

from gateway.limits import TokenEstimator


def test_unknown_model_costs_a_token_per_byte_and_the_whole_output() -> None:
    assert TokenEstimator().estimate("m", prompt_bytes=100, num_messages=0, output_max=50) >= 150


def test_learns_bytes_per_token_and_mean_output() -> None:
    estimator = TokenEstimator()
    first = estimator.estimate("m", 4000, 1, 4096)
    for _ in range(200):
        estimator.learn("m", prompt_bytes=400, prompt_tokens=100, output_tokens=30)
    later = estimator.estimate("m", 4000, 1, 4096)
    assert first > 8000
    assert 1000 + 30 <= later <= 1000 + 30 + 20
    assert later - estimator.estimate("m", 4000, 1, output_max=10) in (20, 21)


def test_follows_a_change_of_traffic() -> None:
    estimator = TokenEstimator()
    for tokens in [100] * 300 + [200] * 300:
        estimator.learn("m", prompt_bytes=400, prompt_tokens=tokens, output_tokens=1)
    assert abs(estimator.bytes_per_token("m") - 2.0) < 0.05


def test_models_learn_apart_and_are_bounded() -> None:
    estimator = TokenEstimator(models_max=3)
    for number in range(10):
        estimator.learn(f"m{number}", 400, 100, 1)
    assert estimator.bytes_per_token("m9") == 4.0
    assert estimator.bytes_per_token("m0") == 1.0


def test_never_less_than_a_byte_per_token_and_nonsense_teaches_nothing() -> None:
    estimator = TokenEstimator()
    estimator.learn("m", prompt_bytes=10, prompt_tokens=500, output_tokens=1)
    assert estimator.bytes_per_token("m") == 1.0
    estimator.learn("n", prompt_bytes=0, prompt_tokens=0, output_tokens=5)
    assert estimator.mean_output_tokens("n", unknown=7) == 7
