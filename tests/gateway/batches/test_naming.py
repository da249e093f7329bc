"""Ids that are found again."""

from __future__ import annotations

from gateway.batches.naming import answer_id, request_id, result_file_id


def test_each_run_of_each_line_has_an_id_of_its_own_and_always_the_same() -> None:
    asked = [(batch, line, run) for batch in ("a", "b") for line in range(3) for run in range(3)]
    assert len({request_id(*one) for one in asked}) == 18
    assert request_id("a", 1, 0) == request_id("a", 1, 0)
    assert request_id("a", 1, 11) != request_id("a", 11, 1)
    assert answer_id("a", 1) != answer_id("a", 2)
    assert result_file_id("a", "output") != result_file_id("a", "error")
    assert request_id("a", 1, 0).startswith("req_")
    assert result_file_id("a", "output").startswith("file-")
