"""Generations are kept, for some time, and matched with answers."""

import gc
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import pytest
import torch
from support.patience import scaled
from support.scripted_generation import ANSWER, DOCUMENTS, generate, rendered, say
from support.threads import at_once
from support.tiny_models import byt5, byte_level, metaspace
from transformers import StoppingCriteria, StoppingCriteriaList

from attribot_rag.errors import InvalidInput
from attribot_rag.model.generation import Generation
from attribot_rag.model.local_model import LocalModel
from attribot_rag.recording import Answer, GenerationRecorder, Transcript

MODEL = byte_level()
PROMPT_IDS = torch.arange(20, 60)[None]
CACHE_BYTES = 2 * 2 * 40 * 16 * 4
"""Layers, keys and values, positions, width, float32."""


@pytest.fixture
def recorder() -> Iterator[GenerationRecorder]:
    with GenerationRecorder(MODEL) as recorder:
        yield recorder


def answer(seed: int = 0, *, rows: int = 1, **options: Any) -> None:
    prompts = PROMPT_IDS.repeat(rows, 1) + seed
    generate(MODEL, prompts, max_new_tokens=3, **{"do_sample": False, **options})


def generation_of(recorder: GenerationRecorder, shown: str, **options: Any) -> Generation:
    match = recorder.find(shown, **options)
    assert match is not None
    return match


def placed(match: Answer | None) -> tuple[int, Generation]:
    """The answer's place in the text that was shown, and its generation."""
    assert match is not None and match.transcript is not None
    return match.start, match.transcript.generation


def test_only_the_last_generations_are_kept() -> None:
    with GenerationRecorder(MODEL, max_generations=3) as recorder:
        for seed in range(5):
            answer(seed)
        assert [generation.prompt_ids[0] for generation in recorder.generations] == [22, 23, 24]
        answer(rows=5)  # a batch larger than the bound
        assert len(recorder.generations) == 3


def test_the_oldest_lose_their_caches_first() -> None:
    with GenerationRecorder(MODEL) as recorder:
        answer()
    size = recorder.generations[0].num_bytes
    assert size >= CACHE_BYTES
    with GenerationRecorder(MODEL, max_cache_bytes=2 * size) as recorder:
        for seed in range(4):
            answer(seed)
    assert [generation.cache is not None for generation in recorder.generations] == [0, 0, 1, 1]
    assert sum(generation.num_bytes for generation in recorder.generations) == 2 * size


def test_the_newest_is_kept_beyond_the_bound_until_the_model_answers_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with GenerationRecorder(MODEL, max_cache_bytes=CACHE_BYTES - 1) as recorder:
        for seed in range(3):
            answer(seed)
            assert [generation.cache is None for generation in recorder.generations] == [
                *[True] * seed,
                False,
            ]
    dropped = [generation.dropped_bytes for generation in recorder.generations]
    assert dropped[0] >= CACHE_BYTES and dropped[1] >= CACHE_BYTES and not dropped[2]
    assert len(caplog.messages) == 1 and "max_cache_bytes" in caplog.messages[0]


def test_a_batch_is_kept_whole_beyond_the_bound() -> None:
    with GenerationRecorder(MODEL, max_cache_bytes=1) as recorder:
        answer(rows=3)
    assert all(generation.cache is not None for generation in recorder.generations)


def test_the_beginning_of_an_attributed_prompt_is_found_again(
    recorder: GenerationRecorder,
) -> None:
    answer()
    read = recorder.generations[0]
    cache = read.cache
    assert cache is not None
    recorder.retire(read, cache, 7)
    begins_alike = Generation((*read.prompt_ids[:36], 1, 2), (3,))
    found = recorder.with_earlier_cache(begins_alike)
    assert (found.num_cached, found.model_version) == (36, 7)
    assert torch.equal(found.cache[0].keys, cache[0].keys[:, :, :36])  # type: ignore[index]
    for other in (Generation((1, *read.prompt_ids[1:]), (3,)), read):
        assert recorder.with_earlier_cache(other) is other


def test_a_cache_beyond_the_bound_is_let_go_before_the_model_answers_again() -> None:
    with GenerationRecorder(MODEL, max_cache_bytes=1) as recorder:
        answer()
        read = recorder.generations[0]
        recorder.retire(read, read.cache, 0)
        unread = read.without_cache()
        again = recorder.with_earlier_cache(unread).cache
        assert again is not None
        keys = weakref.ref(read.cache[0].keys.untyped_storage())  # type: ignore[index]
        del read, again
        answer(1)
    assert recorder.with_earlier_cache(unread).cache is None
    gc.collect()
    assert keys() is None


@pytest.mark.parametrize("bound", [-1, -(2**30)])
def test_a_bound_below_nothing_is_refused(bound: int) -> None:
    with pytest.raises(InvalidInput, match=str(bound)):
        GenerationRecorder(MODEL, max_cache_bytes=bound)


def test_rows_of_a_batch_do_not_keep_each_other_alive(recorder: GenerationRecorder) -> None:
    answer(rows=4)
    assert [generation.num_bytes for generation in recorder.generations] == [CACHE_BYTES] * 4


def test_releasing_drops_one_cache_and_keeps_the_ids(recorder: GenerationRecorder) -> None:
    answer(do_sample=True, num_return_sequences=2)
    first, second = recorder.generations
    recorder.retire(first.truncated(1))
    assert [generation.cache is None for generation in recorder.generations] == [True, False]
    assert recorder.generations[0].response_ids == first.response_ids
    recorder.retire(second)
    assert all(generation.num_bytes == 0 for generation in recorder.generations)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bounds", "num_kept"),
    [({"max_generations": 4}, 4), ({"max_cache_bytes": CACHE_BYTES - 1}, 1)],
    ids=["few generations", "caches beyond the bound"],
)
def test_three_hundred_generations_leave_bounded_memory(
    bounds: dict[str, int], num_kept: int
) -> None:
    alive: list[weakref.ref[torch.UntypedStorage]] = []
    with GenerationRecorder(MODEL, **bounds) as recorder:
        for seed in range(300):
            answer(seed)
            cache = recorder.generations[-1].cache
            assert cache is not None
            alive += [weakref.ref(tensor.untyped_storage()) for layer in cache for tensor in layer]
    del cache
    gc.collect()
    assert sum(generation.cache is not None for generation in recorder.generations) == num_kept
    assert sum(reference() is not None for reference in alive) == num_kept * 2 * 2


def test_the_same_answer_to_different_prompts(recorder: GenerationRecorder) -> None:
    prompts = [rendered(MODEL, [document]) for document in DOCUMENTS]
    for prompt in prompts:
        say(MODEL, [prompt], [ANSWER])
    for prompt, document in zip(prompts, DOCUMENTS, strict=True):
        expected = MODEL.encode_prompt(prompt)
        assert generation_of(recorder, ANSWER, prompt=prompt).prompt_ids == expected
        for text in (document, f"\n {document} "):
            assert generation_of(recorder, ANSWER, contains=[text]).prompt_ids == expected
        assert placed(recorder.find_answer(Answer(prompt + ANSWER)))[0] == len(prompt)
        assert generation_of(recorder, prompt + ANSWER).prompt_ids == expected
    assert generation_of(recorder, ANSWER).prompt_ids == MODEL.encode_prompt(prompts[-1])
    other = rendered(MODEL) + ANSWER
    for shown in (other, prompts[0] + "Another answer.", prompts[0], prompts[0] + " \n"):
        assert recorder.find_answer(Answer(shown)) is None


def test_other_answers_and_prompts_are_not_found(recorder: GenerationRecorder) -> None:
    prompt = rendered(MODEL)
    say(MODEL, [prompt], [ANSWER])
    for text in ("Another answer.", ANSWER + " And more.", "", " \n"):
        assert recorder.find(text) is None
    assert recorder.find(ANSWER, prompt=prompt + "x") is None
    assert recorder.find(ANSWER, prompt=DOCUMENTS[0]) is None
    assert recorder.find(ANSWER, contains=[DOCUMENTS[0], "not in the prompt"]) is None


@pytest.mark.parametrize("build", [byte_level, metaspace, byt5])
def test_a_stopped_answer_is_cut_to_what_was_shown(build: Any) -> None:
    model: LocalModel = build()
    with GenerationRecorder(model) as recorder:
        say(model, [rendered(model)], [ANSWER + " 🙂 Ja, 条約!"])
    full = recorder.generations[0]
    for shown in (ANSWER, "In the old", "In the old town h", ANSWER + " 🙂", ANSWER + " 🙂 J"):
        ids = generation_of(recorder, shown).response_ids
        assert model.decode(ids).strip().startswith(shown)
        assert ids == full.response_ids[: len(ids)]
        assert not model.decode(ids[:-1]).strip().startswith(shown)


@pytest.mark.parametrize("around", [(" ", ""), ("", "\n"), ("\n\n", " \t")])
def test_space_around_the_answer_does_not_matter(
    recorder: GenerationRecorder, around: tuple[str, str]
) -> None:
    before, after = around
    generated = f"{after}{ANSWER}{before}"
    say(MODEL, [rendered(MODEL)], [generated])
    start, match = placed(recorder.find_answer(Answer(f"{before}{ANSWER}{after}")))
    assert start == 0
    text = MODEL.decode(match.response_ids)
    assert text.strip() == ANSWER
    assert text == generated.rstrip() or not generated[-1:].strip()


@pytest.mark.parametrize("num_bos", [0, 1, 2])
def test_a_prompt_is_known_whatever_bos_was_put_before_it(num_bos: int) -> None:
    model = metaspace()
    prompt = rendered(model)
    with GenerationRecorder(model) as recorder:
        say(model, ["<s>" * num_bos + prompt], [ANSWER])
    assert recorder.generations[0].prompt_ids[:num_bos] == (1,) * num_bos
    for wanted in (prompt, "<s>" + prompt, "<s><s>" + prompt):
        assert recorder.find(ANSWER, prompt=wanted, timeout=scaled(60)) is not None


@pytest.mark.parametrize("build", [byte_level, metaspace, byt5])
@pytest.mark.parametrize("skip_special_tokens", [True, False])
def test_the_prompt_may_stand_before_the_answer(build: Any, skip_special_tokens: bool) -> None:
    model: LocalModel = build()
    with GenerationRecorder(model) as recorder:
        say(model, [model.decode(model.encode_prompt(rendered(model)))], [ANSWER])
    (whole,) = recorder.generations
    prompt = model.decode(whole.prompt_ids, skip_special_tokens=skip_special_tokens)
    assert recorder.find(ANSWER, prompt=prompt) is not None
    for shown in (ANSWER, "In the old"):
        answer = Answer(prompt + shown, prompt_texts=[DOCUMENTS[1]])
        start, generation = placed(recorder.find_answer(answer))
        assert start == len(prompt)
        assert generation.prompt_ids == whole.prompt_ids
        assert model.decode(generation.response_ids).strip().startswith(shown)
        assert len(generation.response_ids) <= len(whole.response_ids)


def test_an_answer_that_repeats_its_prompt(recorder: GenerationRecorder) -> None:
    prompt = "\n".join([*DOCUMENTS, "Say it again."])
    say(MODEL, [prompt], [prompt + ANSWER])
    start, match = placed(recorder.find_answer(Answer(prompt + ANSWER)))
    assert start == 0
    assert match.response_ids == recorder.generations[0].response_ids


def test_a_prompt_like_the_one_that_was_given_comes_first(recorder: GenerationRecorder) -> None:
    """Of several generations that fit."""
    short, long = "The harbour was closed.", "Read this. The harbour was closed. And this."
    for prompt in (short, long):
        say(MODEL, [prompt], [ANSWER])
    first, second = recorder.generations
    for like, expected in ((short, first), (long, second), (None, second)):
        match = recorder.find_answer(Answer(ANSWER, prompt_texts=[short], prompt=like))
        assert placed(match)[1].prompt_ids == expected.prompt_ids
    assert recorder.find_answer(Answer(ANSWER, prompt_texts=[short], prompt="neither")) is None


@pytest.mark.parametrize("shown", [ANSWER, "In the old"])
def test_a_forgotten_generation_is_kept_no_longer(recorder: GenerationRecorder, shown: str) -> None:
    """Nor one that was found cut."""
    say(MODEL, [rendered(MODEL)], [ANSWER])
    say(MODEL, [rendered(MODEL)], ["By the river."])
    first, second = recorder.generations
    recorder.forget(generation_of(recorder, shown))
    assert list(recorder.generations) == [second]
    assert recorder.find(ANSWER) is None
    recorder.forget(first)
    assert list(recorder.generations) == [second]


def test_equal_generations_are_forgotten_one_by_one(recorder: GenerationRecorder) -> None:
    """Rows of one batch and calls with one prompt have equal ids, but are not the same."""
    say(MODEL, [rendered(MODEL)] * 2, [ANSWER] * 2)
    say(MODEL, [rendered(MODEL)], [ANSWER])
    generations = recorder.generations
    recorder.forget(generations[1])
    assert list(recorder.generations) == [generations[0], generations[2]]
    recorder.forget(generation_of(recorder, ANSWER))
    assert list(recorder.generations) == [generations[0]]


def test_the_memory_of_a_forgotten_generation_is_freed(recorder: GenerationRecorder) -> None:
    answer()
    (generation,) = recorder.generations
    assert generation.cache is not None
    alive = [weakref.ref(tensor) for layer in generation.cache for tensor in layer]
    recorder.forget(generation)
    del generation
    gc.collect()
    assert [reference() for reference in alive] == [None] * 4
    answer()  # what comes later is kept
    assert len(recorder.generations) == 1


class Gate(StoppingCriteria):
    """Holds a generation before its end until it is opened."""

    def __init__(self, error: Exception | None = None) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()
        self.waits = True
        self.error = error

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
        self.reached.set()
        opened = self.opened.wait(scaled(60))
        self.waits = False
        assert opened
        if self.error is not None:
            raise self.error
        return torch.zeros(len(input_ids), dtype=torch.bool)


@contextmanager
def running(
    model: LocalModel, *prompts: str, error: Exception | None = None, **inputs: Any
) -> Iterator[Gate]:
    """A thread answers these prompts, or these inputs, until the gate is opened or at the end."""
    gate = Gate(error)
    criteria = StoppingCriteriaList([gate])

    def answer() -> None:
        with pytest.raises(type(error)) if error else nullcontext():
            if prompts:
                say(model, prompts, [ANSWER] * len(prompts), stopping_criteria=criteria)
            else:
                generate(model, max_new_tokens=2, stopping_criteria=criteria, **inputs)

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        assert gate.reached.wait(scaled(60))
        yield gate
    finally:
        gate.opened.set()
        thread.join()


def test_a_search_waits_for_running_generations(recorder: GenerationRecorder) -> None:
    with running(MODEL, rendered(MODEL)) as gate:
        assert recorder.find(ANSWER) is None
        assert recorder.find(ANSWER, timeout=0.01) is None
        recorder.wait_until_idle(0.01)
        assert len(recorder.generations) == 0
        threading.Timer(0.1, gate.opened.set).start()
        assert recorder.find(ANSWER, timeout=scaled(60)) is not None
        recorder.wait_until_idle(60)
        assert len(recorder.generations) == 1


def test_a_search_does_not_wait_for_later_generations(recorder: GenerationRecorder) -> None:
    """Steady traffic must not hold up the search for an answer that was never recorded."""
    matches: list[Generation | None] = []
    with running(MODEL, rendered(MODEL)) as first:
        search = threading.Thread(
            target=lambda: matches.append(recorder.find("never said", timeout=scaled(600)))
        )
        search.start()
        time.sleep(0.1)
        with running(MODEL, rendered(MODEL)):
            first.opened.set()
            search.join(60)
            assert matches == [None]


def test_another_prompt_s_generation_is_not_waited_for(recorder: GenerationRecorder) -> None:
    other = rendered(MODEL, question="Who closed the harbour?")
    with running(MODEL, rendered(MODEL)):
        for wanted in ({"prompt": other}, {"contains": ["Who closed the harbour?"]}):
            assert recorder.find(ANSWER, timeout=scaled(600), **wanted) is None
        match = recorder.match(Answer(ANSWER), prompt=other)
        assert match.done()
        assert match.result() is None


@pytest.mark.parametrize("row", [0, 1])
def test_rows_of_a_padded_batch_are_waited_for(recorder: GenerationRecorder, row: int) -> None:
    prompts = [rendered(MODEL, DOCUMENTS[:count]) for count in (1, 2)]
    with running(MODEL, *prompts) as gate:
        match = recorder.match(Answer(ANSWER), prompt=prompts[row])
        assert not match.done()
        gate.opened.set()
        answer = match.result(scaled(60))
    assert placed(answer)[1].prompt_ids == MODEL.encode_prompt(prompts[row])


def test_a_prompt_of_embeddings_is_not_waited_for(recorder: GenerationRecorder) -> None:
    embeddings = MODEL.model.get_input_embeddings()(PROMPT_IDS)
    with running(MODEL, inputs_embeds=embeddings):
        assert recorder.match(Answer(ANSWER)).done()
    prompts = [generation.prompt_ids for generation in recorder.generations]
    assert prompts == [()]  # to be refused by name


def test_a_call_that_fails_ends_the_wait(recorder: GenerationRecorder) -> None:
    with running(MODEL, rendered(MODEL), error=RuntimeError("out of memory")) as gate:
        match = recorder.match(Answer(ANSWER, prompt_texts=[DOCUMENTS[0]]))
        assert not match.done()
        gate.opened.set()
        assert match.result(scaled(60)) is None


def test_threads_that_attach_and_detach_lose_nothing() -> None:
    before = dict(vars(MODEL.model))
    lost: list[int] = []

    def work(seed: int) -> None:
        for _ in range(20):
            with GenerationRecorder(MODEL) as own:
                answer(seed)
            if all(generation.prompt_ids[0] != 20 + seed for generation in own.generations):
                lost.append(seed)

    at_once(*(partial(work, seed) for seed in range(4)))
    assert lost == []
    assert vars(MODEL.model) == before


def test_text_that_was_not_generated_is_refused() -> None:
    generation = Generation((5, 6), MODEL.encode(ANSWER))
    with pytest.raises(InvalidInput, match="Somewhere else"):
        Transcript.of(generation, MODEL).cut_to("Somewhere else")
