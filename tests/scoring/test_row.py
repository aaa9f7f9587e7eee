"""The tokens of a row, their positions, and the keys that each of them sees."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from attribot_rag.model.generation import Generation
from attribot_rag.scoring.backend import in_columns
from attribot_rag.scoring.local_prefix import row_mask
from attribot_rag.scoring.row import Row, TokenBlock, intervals_of, with_response_tokens

RESPONSE = (90, 91, 92)


def generation_of(length: int) -> Generation:
    """A prompt whose ids tell their positions: 100 at position 0, and so on."""
    return Generation(tuple(range(100, 100 + length)), RESPONSE)


def test_an_exact_row_feeds_the_tokens_after_the_shared_beginning() -> None:
    row = Row.for_prompt((100, 101, 105, 106), 2, generation_of(8))
    assert row.blocks == (TokenBlock(((0, 2),), (105, 106, 90, 91), 2),)
    assert row.has_no_gap
    assert (row.num_new, row.visible_end) == (4, 2)
    assert row.positions == [2, 3, 4, 5]
    assert row.full_ids(generation_of(8)) == (100, 101, 105, 106, 90, 91)
    nothing_shared = Row.for_prompt((7, 8), 0, generation_of(3))
    assert nothing_shared.blocks == (TokenBlock((), (7, 8, 90, 91), 0),)
    assert nothing_shared.full_ids(generation_of(3)) == (7, 8, 90, 91)


def test_the_last_token_of_the_prompt_is_always_fed() -> None:
    generation = generation_of(5)
    full = Row.for_prompt(generation.prompt_ids, 5, generation)
    assert full.token_ids == (104, 90, 91)
    assert full.positions == [4, 5, 6]
    cut_at_the_end = Row.for_prompt((100, 101), 2, generation)
    assert cut_at_the_end.token_ids == (101, 90, 91)
    assert cut_at_the_end.positions == [1, 2, 3]


def test_a_row_may_say_some_tokens_of_the_response() -> None:
    generation = generation_of(5)
    row = Row.for_prompt((100, 101, 104), 2, with_response_tokens(generation, (0, 2)))
    assert row.token_ids == (104, 90)
    assert row.targets == (90, 92)
    assert Row.for_prompt((100, 101, 104), 2, generation).targets == RESPONSE
    rows = [row, replace(row, kept_response=(0, 2))]
    placed = in_columns(torch.arange(5.0), rows, 3)
    assert placed.nan_to_num(-1).tolist() == [[0, 1, 2], [3, -1, 4]]


def test_hiding_nothing_and_recomputing_the_tail_is_the_exact_row() -> None:
    generation = generation_of(6)
    row = Row.masked(generation, (), range(4, 6))
    assert row == Row.for_prompt(generation.prompt_ids, 4, generation)
    assert row.has_no_gap


def test_a_hidden_stretch_parts_the_segments() -> None:
    row = Row.masked(generation_of(10), range(2, 5), range(8, 10))
    assert row.blocks == (TokenBlock(((0, 2), (5, 8)), (108, 109, 90, 91), 8),)
    assert not row.has_no_gap
    assert row.visible_end == 8
    assert row.full_ids(generation_of(10)) == (*range(100, 110), 90, 91)


def test_where_all_is_hidden_the_last_token_sees_itself_alone() -> None:
    row = Row.masked(generation_of(4), range(4), [2, 3])
    assert row.blocks == (TokenBlock((), (103, 90, 91), 3),)


@st.composite
def maskings(draw: st.DrawFn) -> tuple[Generation, set[int], set[int]]:
    length = draw(st.integers(1, 24))
    positions = st.sets(st.integers(0, length - 1))
    hidden = draw(positions.filter(lambda candidate: len(candidate) < length))
    return generation_of(length), hidden, draw(positions)


@given(maskings())
def test_masked_rows(made: tuple[Generation, set[int], set[int]]) -> None:
    generation, hidden, recomputed = made
    length = len(generation.prompt_ids)
    visible = set(range(length)) - hidden
    fed = {max(visible)} | (recomputed - hidden)
    row = Row.masked(generation, hidden, recomputed)

    assert row.token_ids == (*(100 + i for i in sorted(fed)), *RESPONSE[:-1])
    assert row.positions == [*sorted(fed), length, length + 1]
    assert row.num_new == len(row.token_ids)
    for block in row.blocks:
        visible_positions = {i for start, end in block.segments for i in range(start, end)}
        assert visible_positions == {i for i in visible - fed if i < block.first_position}
        assert list(block.segments) == sorted(block.segments)
    last_seen = max((i for i in visible - fed if i < max(row.positions)), default=-1)
    assert row.visible_end == last_seen + 1


@given(maskings())
def test_each_token_sees_the_segments_of_its_block(
    made: tuple[Generation, set[int], set[int]],
) -> None:
    row = Row.masked(*made)
    visible = row_mask(row)
    assert visible.shape == (row.num_new, row.visible_end + row.num_new)
    queries = [block for block in row.blocks for _ in block.token_ids]
    for index, block in enumerate(queries):
        visible_positions = [i for i in range(row.visible_end) if visible[index, i]]
        assert intervals_of(np.array(visible_positions, dtype=np.int64)) == list(block.segments)
        own = visible[index, row.visible_end :]
        assert own[: index + 1].all()
        assert not own[index + 1 :].any()


@given(st.sets(st.integers(0, 30)))
def test_runs_cover_the_positions_and_do_not_touch(positions: set[int]) -> None:
    intervals = intervals_of(np.array(sorted(positions), dtype=np.int64))
    assert {i for start, end in intervals for i in range(start, end)} == positions
    for (_, end), (start, _) in pairwise(intervals):
        assert end < start
