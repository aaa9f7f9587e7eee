"""A proxy reads the same text with tokenizer and template of its own; its scores come back."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from support.scorers import (
    ANSWER,
    ATOL,
    TREATY,
    assert_same_rows,
    assert_scored_by_hand,
    best_by_hand,
    by_hand,
    chat,
    cutting_chat,
    ids_of,
    other_chat,
    plain,
    run,
    scorer,
    sibling,
)
from support.tiny_models import build, byt5, byte_level, metaspace

from attribot_rag import Attributor
from attribot_rag.context import TokenizedText
from attribot_rag.errors import ContextTooLong, InvalidInput
from attribot_rag.methods import (
    Auto,
    Hierarchical,
    LeaveOneOut,
    Masked,
    Method,
    Proxy,
    Pruned,
    make_method,
)
from attribot_rag.methods.proxy import proxied
from attribot_rag.model.chat_messages import Message, render
from attribot_rag.model.language_model import Prompt
from attribot_rag.model.local_model import LocalModel
from attribot_rag.scoring import Scorer

PROXIES = (sibling, metaspace, byt5, other_chat)
UNITS = range(11)


def on_its_own(proxy: LocalModel, prompt: Prompt, documents: Any = TREATY) -> list[list[float]]:
    """Leave-one-out of the proxy as if it were the model that is attributed."""
    attributor = Attributor(proxy, method="leave_one_out", verdicts=None, progress=False)
    attribution = attributor.attribute(prompt, ANSWER, documents)
    assert len(attribution.sources) == len(UNITS)
    scores: list[list[float]] = attribution.matrix.tolist()
    return scores


def totals(rows: Any) -> list[float]:
    return [float(sum(row)) for row in rows]


def seen_by(proxy: LocalModel, target: Scorer) -> Scorer:
    method = Proxy(proxy)
    proxy_scorer = proxied(target, proxy, method._backend)
    assert proxy_scorer is not None
    return proxy_scorer


def _joined(messages: Sequence[Message]) -> str:
    """Chat messages as a proxy without a template reads them."""
    return "\n\n".join(str(message["content"]) for message in messages)


def test_the_target_as_its_own_proxy_is_leave_one_out() -> None:
    target = scorer()
    scores = Proxy(target.language_model).run(target)
    expected = run(LeaveOneOut())
    assert scores.token_scores == expected.token_scores
    assert scores.token_log_likelihoods == expected.token_log_likelihoods
    assert not any(scores.exact)


def test_a_proxy_that_encodes_alike_reads_the_same_ids() -> None:
    target = scorer()
    other = seen_by(sibling(), target)
    assert other.generation.prompt_ids == target.generation.prompt_ids
    assert other.context is target.context
    expected = on_its_own(sibling(), chat(TREATY))
    np.testing.assert_allclose(run(Proxy(sibling())).token_scores, expected, atol=ATOL)  # type: ignore[arg-type]


@pytest.mark.parametrize("make_proxy", PROXIES)
def test_sums_are_those_of_the_proxy_on_its_own(make_proxy: Any) -> None:
    proxy = make_proxy()
    scores = run(Proxy(proxy))
    read: Prompt = chat(TREATY) if proxy.tokenizer.chat_template else _joined(chat(TREATY))
    expected = on_its_own(proxy, read)
    np.testing.assert_allclose(totals(scores.token_scores), totals(expected), atol=ATOL)
    assert all(len(row or ()) == len(byte_level().encode(ANSWER)) for row in scores.token_scores)
    assert max(map(abs, totals(expected))) > 0.1


@pytest.mark.parametrize("make_proxy", [byte_level, byt5, other_chat])
@pytest.mark.parametrize("as_ids", [False, True])
def test_a_prompt_of_text_or_ids_is_read_as_text(make_proxy: Any, as_ids: bool) -> None:
    text = plain(TREATY)
    ids = metaspace().encode_prompt(text)
    assert ids[0] == metaspace().tokenizer.bos_token_id
    target = scorer(language_model=metaspace(), prompt=ids if as_ids else text)
    proxy = make_proxy()
    other = seen_by(proxy, target)
    assert "<s>" not in other.context.prompt.text
    scores = Proxy(proxy).run(target)
    read = metaspace().decode(ids, skip_special_tokens=True)
    expected = on_its_own(proxy, read)
    np.testing.assert_allclose(totals(scores.token_scores), totals(expected), atol=ATOL)


@pytest.mark.parametrize("as_ids", [False, True])
def test_special_tokens_of_the_target_do_not_reach_the_proxy(as_ids: bool) -> None:
    target = byte_level()
    text = render(chat(TREATY), target.tokenizer)
    prompt: Prompt = target.encode(text, special=True) if as_ids else text
    other = seen_by(byt5(), scorer(prompt=prompt))
    assert "<|im_" in scorer(prompt=prompt).context.prompt.text
    assert "<|im_" not in other.context.prompt.text
    assert "Question: who signed it?" in other.context.prompt.text


def test_messages_reach_the_proxy_in_its_own_template() -> None:
    other = seen_by(other_chat(), scorer())
    assert other.context.prompt.text == other_chat().decode(
        other_chat().encode_prompt(chat(TREATY))
    )
    assert other.context.prompt.text.startswith("[system] Answer")
    assert [source.id for source in other.context.sources] == list(UNITS)
    system, user = chat(TREATY)
    other = seen_by(byt5(), scorer(prompt=[system, {"role": "assistant"}, user]))
    assert other.context.prompt.text == f"{system['content']}\n\n\n\n{user['content']}"


@pytest.mark.parametrize("make_proxy", [metaspace, byt5, other_chat])
def test_every_column_goes_to_the_token_with_its_first_character(make_proxy: Any) -> None:
    target, proxy = scorer(), make_proxy()
    other = seen_by(proxy, target)
    scores = Proxy(proxy).run(target)
    theirs = LeaveOneOut().run(other)
    ours = TokenizedText.of(target.generation.response_ids, target.language_model)
    of_proxy = TokenizedText.of(other.generation.response_ids, proxy)
    assert ours.text == of_proxy.text == ANSWER
    for row, proxy_row in zip(scores.token_scores, theirs.token_scores, strict=True):
        assert row is not None and proxy_row is not None
        by_token = [0.0] * len(ours.ids)
        for (start, end), score in zip(of_proxy.spans, proxy_row, strict=True):
            piece = ANSWER[start:end]
            anchor = start + (len(piece) - len(piece.lstrip()) if piece.strip() else 0)
            by_token[next(i for i, (a, b) in enumerate(ours.spans) if a <= anchor < b)] += score
        np.testing.assert_allclose(row, by_token, atol=ATOL)


def test_a_proxy_that_cannot_read_the_prompt_is_refused() -> None:
    with pytest.raises(InvalidInput, match="the proxy's prompt does not hold"):
        run(Proxy(cutting_chat()))
    with pytest.raises(ContextTooLong, match="256"):
        run(Proxy(build("gpt2")))
    target = scorer()
    target.prompt_input = None
    with pytest.raises(InvalidInput, match="prompt_input"):
        Proxy(byt5()).run(target)


@pytest.mark.parametrize("make_proxy", PROXIES)
def test_proxy_pruning_is_leave_one_out_of_its_best_two(make_proxy: Any) -> None:
    proxy = make_proxy()
    target = scorer()
    of_proxy = [np.array(row) for row in run(Proxy(proxy)).token_scores]
    kept = sorted(best_by_hand(of_proxy, 2))
    shorter = target.rebased(kept)
    assert shorter is not None
    expected = by_hand(shorter, [[unit] for unit in kept])
    for method in (Pruned(Proxy(proxy), keep=2), make_method("leave_one_out", proxy, 2)):
        scores = run(method)
        assert_scored_by_hand(scores, kept, expected)
        assert not any(scores.exact)
    assert_same_rows(run(make_method("auto", proxy, 2)), run(Pruned(Proxy(proxy), keep=2)))


@pytest.mark.parametrize("make_proxy", PROXIES)
@pytest.mark.parametrize("shorten", [True, False])
def test_a_proxy_chooses_the_groups(make_proxy: Any, shorten: bool) -> None:
    proxy, target = make_proxy(), scorer()
    groups = [ids_of(target, document) for document in range(4)]
    of_groups = by_hand(seen_by(proxy, target), groups)
    kept = [unit for index in best_by_hand(of_groups, 2) for unit in groups[index]]
    current = target.rebased(kept) if shorten else target
    assert current is not None
    scores = run(Hierarchical(keep=2, coarse=Proxy(proxy), shorten=shorten))
    assert_scored_by_hand(scores, kept, by_hand(current, [[unit] for unit in kept]))
    assert scores.exact == tuple(not shorten and unit in kept for unit in UNITS)
    for group, row in zip(scores.groups, of_groups, strict=True):
        assert sum(group.token_scores) == pytest.approx(row.sum(), abs=ATOL)
        assert len(group.token_scores) == len(target.generation.response_ids)
        assert not group.exact


@pytest.mark.parametrize("make_proxy", PROXIES)
def test_a_proxy_scores_the_groups_that_the_target_chose(make_proxy: Any) -> None:
    """The proxy reads the shortened prompt of the target."""
    proxy, target = make_proxy(), scorer()
    groups = [ids_of(target, document) for document in range(4)]
    kept = [unit for index in best_by_hand(by_hand(target, groups), 2) for unit in groups[index]]
    other = seen_by(proxy, target).rebased(kept)
    assert other is not None
    scores = run(Hierarchical(keep=2, fine=Proxy(proxy)))
    expected = [float(row.sum()) for row in by_hand(other, [[unit] for unit in kept])]
    np.testing.assert_allclose(
        [sum(scores.token_scores[i] or ()) for i in kept], expected, atol=ATOL
    )
    assert sum(row is not None for row in scores.token_scores) == len(kept)


@pytest.mark.parametrize("make_proxy", [byt5, other_chat])
@pytest.mark.parametrize(
    "method",
    [
        Masked(),
        Hierarchical(keep=2),
        Hierarchical(keep=1, levels=("passage", "paragraph")),
        Pruned(Hierarchical(keep=2), 2),
        Auto(),
    ],
    ids=lambda method: method.name,
)
def test_any_method_on_a_proxy_is_that_method_on_its_scorer(
    make_proxy: Any, method: Method
) -> None:
    proxy, target = make_proxy(), scorer()
    scores = Proxy(proxy, method).run(target)
    expected = method.run(seen_by(proxy, target))
    assert [row is None for row in scores.token_scores] == [
        row is None for row in expected.token_scores
    ]
    pairs = [
        *zip(scores.token_scores, expected.token_scores, strict=True),
        *zip(
            [group.token_scores for group in scores.groups],
            [group.token_scores for group in expected.groups],
            strict=True,
        ),
        (scores.context_reliance, expected.context_reliance),
        (scores.token_log_likelihoods, expected.token_log_likelihoods),
    ]
    for row, expected_row in pairs:
        assert (row is None) == (expected_row is None)
        if row is not None and expected_row is not None:
            assert sum(row) == pytest.approx(sum(expected_row), abs=ATOL)
            assert len(row) == len(target.generation.response_ids)
    assert not any(scores.exact) and not any(group.exact for group in scores.groups)
    assert [group.units for group in scores.groups] == [group.units for group in expected.groups]


def test_the_proxy_reads_the_prompt_once() -> None:
    """Its prompt is not read in full first when the target's is a shortened one."""
    proxy, target = byt5(), scorer()
    Hierarchical(keep=1, fine=Proxy(proxy)).run(target)
    (usage,) = [usage for model, usage in target.session.usages if model is proxy]
    full = seen_by(proxy, scorer()).generation.prompt_ids
    assert 0 < usage.prefilled_tokens < len(full) / 2
