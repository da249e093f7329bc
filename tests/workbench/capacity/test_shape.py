"""Counting elements, and names of attention."""

from __future__ import annotations

from workbench.capacity.shape import Attention, Matrix, Shape


def test_parameters_are_matrices_and_vectors() -> None:
    matrices = (Matrix("linear", 3, 5, 2), Matrix("head", 7, 5))
    assert [matrix.elements for matrix in matrices] == [30, 35]
    assert Shape("toy", Attention(4, 1, 8, (None,)), matrices, 11, 64).num_parameters == 76


def test_names_of_attention() -> None:
    assert [Attention(8, heads, 16, ()).kind for heads in (8, 2, 1)] == ["MHA", "GQA", "MQA"]
