"""What is kept, for how long, and how it is found again."""

import gc
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
import torch
from support.patience import scaled
from support.scripted_generation import ANSWER, DOCUMENTS, generate, rendered, say
from support.threads import at_once
from support.tiny_models import byt5, byte_level, metaspace
from transformers import StoppingCriteria, StoppingCriteriaList, TextIteratorStreamer

from attribot_rag.errors import InvalidInput
from attribot_rag.model.generation import Generation
from attribot_rag.model.language_model import LanguageModel
from attribot_rag.recording import GenerationRecorder
from attribot_rag.recording.recorder import shown_part

MODEL = byte_level()
PROMPT_IDS = torch.arange(20, 60)[None]


@pytest.fixture
def recorder() -> Iterator[GenerationRecorder]:
    with GenerationRecorder(MODEL) as recorder:
        yield recorder


def answer(seed: int = 0) -> None:
    generate(MODEL, PROMPT_IDS + seed, max_new_tokens=3, do_sample=False)


def found_by(recorder: GenerationRecorder, text: str, **asked: Any) -> Generation:
    generation = recorder.find(text, **asked)
    assert generation is not None
    return generation


class TestBounds:
    def test_only_the_last_generations_are_kept(self) -> None:
        with GenerationRecorder(MODEL, max_generations=3) as recorder:
            for seed in range(5):
                answer(seed)
        assert [one.prompt_ids[0] for one in recorder.generations] == [22, 23, 24]

    def test_rows_of_a_batch_count_each_for_itself(self) -> None:
        """And do not keep each other's caches alive."""
        with GenerationRecorder(MODEL, max_generations=3) as recorder:
            generate(MODEL, PROMPT_IDS.repeat(5, 1), max_new_tokens=3, do_sample=False)
        sizes = [one.num_bytes for one in recorder.generations]
        assert sizes == [2 * 2 * 40 * 16 * 4] * 3

    def test_the_oldest_lose_their_caches_first(self) -> None:
        with GenerationRecorder(MODEL) as recorder:
            answer()
        size = recorder.generations[0].num_bytes
        assert size >= 2 * 2 * 40 * 16 * 4  # layers, keys and values, positions, width, float32
        with GenerationRecorder(MODEL, max_cache_bytes=2 * size) as recorder:
            for seed in range(4):
                answer(seed)
        assert [one.cache is not None for one in recorder.generations] == [0, 0, 1, 1]
        assert sum(one.num_bytes for one in recorder.generations) == 2 * size

    def test_releasing_drops_one_cache_and_keeps_the_ids(self) -> None:
        with GenerationRecorder(MODEL) as recorder:
            generate(MODEL, PROMPT_IDS, max_new_tokens=3, do_sample=True, num_return_sequences=2)
        first, second = recorder.generations
        recorder.release(first.truncated(1))
        assert [one.cache is None for one in recorder.generations] == [True, False]
        assert recorder.generations[0].response_ids == first.response_ids
        recorder.release(second)
        assert all(one.num_bytes == 0 for one in recorder.generations)

    @pytest.mark.slow
    def test_two_hundred_generations_leave_bounded_memory(self) -> None:
        alive: list[weakref.ref[torch.Tensor]] = []
        with GenerationRecorder(MODEL, max_generations=4) as recorder:
            for seed in range(200):
                answer(seed)
                cache = recorder.generations[-1].cache
                assert cache is not None
                alive += [weakref.ref(tensor) for layer in cache for tensor in layer]
        del cache
        gc.collect()
        assert len(recorder.generations) == 4
        assert sum(reference() is not None for reference in alive) == 4 * 2 * 2


class TestFinding:
    def test_the_same_answer_to_different_prompts(self, recorder: GenerationRecorder) -> None:
        prompts = [rendered(MODEL, [document]) for document in DOCUMENTS]
        for prompt in prompts:
            say(MODEL, [prompt], [ANSWER])
        for prompt, document in zip(prompts, DOCUMENTS, strict=True):
            for found in (
                recorder.find(ANSWER, prompt=prompt),
                recorder.find(ANSWER, contains=[document]),
                recorder.find(ANSWER, contains=[f"\n {document} "]),
            ):
                assert found is not None
                assert found.prompt_ids == MODEL.encode_prompt(prompt)
        latest = found_by(recorder, ANSWER)
        assert latest.prompt_ids == MODEL.encode_prompt(prompts[-1])

    def test_what_was_not_said_or_asked_is_not_found(self, recorder: GenerationRecorder) -> None:
        prompt = rendered(MODEL)
        say(MODEL, [prompt], [ANSWER])
        assert recorder.find("Another answer.") is None
        assert recorder.find(ANSWER + " And more.") is None
        assert recorder.find(ANSWER, prompt=prompt + "x") is None
        assert recorder.find(ANSWER, prompt=DOCUMENTS[0]) is None
        assert recorder.find(ANSWER, contains=[DOCUMENTS[0], "not in the prompt"]) is None
        assert recorder.find("") is None
        assert recorder.find(" \n") is None

    def test_rows_of_a_padded_batch(self, recorder: GenerationRecorder) -> None:
        prompts = [rendered(MODEL, DOCUMENTS[:count]) for count in (1, 3, 2)]
        answers = ["In the town hall.", "In October, in the old town hall.", "By the river."]
        say(MODEL, prompts, answers)
        for prompt, text in zip(prompts, answers, strict=True):
            found = found_by(recorder, text, prompt=prompt)
            assert found.prompt_ids == MODEL.encode_prompt(prompt)
            assert found.response_ids == MODEL.encode(text)

    @pytest.mark.parametrize("build", [byte_level, metaspace, byt5])
    def test_a_stopped_answer_is_cut_to_what_was_shown(self, build: Any) -> None:
        model: LanguageModel = build()
        with GenerationRecorder(model) as recorder:
            say(model, [rendered(model)], [ANSWER + " 🙂 Ja, 条約!"])
        full = recorder.generations[0]
        for shown in (ANSWER, "In the old", "In the old town h", ANSWER + " 🙂", ANSWER + " 🙂 J"):
            found = found_by(recorder, shown)
            cut = model.decode(found.response_ids)
            assert cut.strip().startswith(shown)
            assert found.response_ids == full.response_ids[: len(found.response_ids)]
            shorter = model.decode(found.response_ids[:-1])
            assert not shorter.strip().startswith(shown)

    @pytest.mark.parametrize("around", [(" ", ""), ("", "\n"), ("\n\n", " \t")])
    def test_space_around_the_answer_does_not_matter(
        self, recorder: GenerationRecorder, around: tuple[str, str]
    ) -> None:
        said = f"{around[1]}{ANSWER}{around[0]}"
        say(MODEL, [rendered(MODEL)], [said])
        found = found_by(recorder, f"{around[0]}{ANSWER}{around[1]}")
        assert MODEL.decode(found.response_ids).strip() == ANSWER
        assert MODEL.decode(found.response_ids) == said.rstrip() or not said[-1:].strip()

    def test_a_prompt_is_known_with_and_without_its_special_tokens(
        self, recorder: GenerationRecorder
    ) -> None:
        prompt = rendered(MODEL)
        say(MODEL, [prompt], [ANSWER])
        bare = MODEL.decode(MODEL.encode_prompt(prompt), skip_special_tokens=True)
        assert bare != prompt
        assert recorder.find(ANSWER, prompt=bare) is not None

    @pytest.mark.parametrize("num_bos", [0, 1, 2])
    def test_a_prompt_is_known_whatever_bos_was_put_before_it(self, num_bos: int) -> None:
        model = metaspace()
        prompt = rendered(model)
        with GenerationRecorder(model) as recorder:
            say(model, ["<s>" * num_bos + prompt], [ANSWER])
        assert recorder.generations[0].prompt_ids[:num_bos] == (1,) * num_bos
        for asked in (prompt, "<s>" + prompt, "<s><s>" + prompt):
            assert recorder.find(ANSWER, prompt=asked) is not None


class TestFindingWhatWasShown:
    @pytest.mark.parametrize("build", [byte_level, metaspace, byt5])
    @pytest.mark.parametrize("skip_special_tokens", [True, False])
    def test_the_prompt_may_stand_before_the_answer(
        self, build: Any, skip_special_tokens: bool
    ) -> None:
        model: LanguageModel = build()
        prompt_ids = model.encode_prompt(rendered(model))
        with GenerationRecorder(model) as recorder:
            say(model, [model.decode(prompt_ids)], [ANSWER])
        prompt = model.decode(
            recorder.generations[0].prompt_ids, skip_special_tokens=skip_special_tokens
        )
        for shown in (ANSWER, "In the old"):
            found = recorder.find_shown(prompt + shown, contains=[DOCUMENTS[1]])
            assert found is not None
            generation, start = found
            assert start == len(prompt)
            assert generation.prompt_ids == recorder.generations[0].prompt_ids
            assert model.decode(generation.response_ids).strip().startswith(shown)
            assert len(generation.response_ids) <= len(recorder.generations[0].response_ids)

    @pytest.mark.parametrize("around", [("", ""), (" ", ""), ("\n\n", " \t")])
    def test_an_answer_alone_begins_where_its_text_does(
        self, recorder: GenerationRecorder, around: tuple[str, str]
    ) -> None:
        say(MODEL, [rendered(MODEL)], [ANSWER])
        found = recorder.find_shown(f"{around[0]}{ANSWER}{around[1]}")
        assert found is not None
        assert found[1] == 0
        assert found[0].response_ids == MODEL.encode(ANSWER)

    def test_another_prompt_before_the_answer(self, recorder: GenerationRecorder) -> None:
        prompts = [rendered(MODEL, [document]) for document in DOCUMENTS]
        for prompt in prompts:
            say(MODEL, [prompt], [ANSWER])
        for prompt in prompts:
            found = recorder.find_shown(prompt + ANSWER)
            assert found is not None
            assert found[0].prompt_ids == MODEL.encode_prompt(prompt)
            assert found[1] == len(prompt)
            assert recorder.find(prompt + ANSWER) == found[0]
        assert recorder.find_shown(rendered(MODEL) + ANSWER) is None
        assert recorder.find_shown(prompts[0] + "Another answer.") is None
        assert recorder.find_shown(prompts[0]) is None
        assert recorder.find_shown(prompts[0] + " \n") is None

    def test_an_answer_that_repeats_its_prompt(self, recorder: GenerationRecorder) -> None:
        prompt = "\n".join([*DOCUMENTS, "Say it again."])
        say(MODEL, [prompt], [prompt + ANSWER])
        (generation,) = recorder.generations
        found = recorder.find_shown(prompt + ANSWER)
        assert found is not None
        assert found[1] == 0
        assert found[0].response_ids == generation.response_ids

    def test_a_prompt_like_the_one_that_was_given_comes_first(
        self, recorder: GenerationRecorder
    ) -> None:
        short, long = "The harbour was closed.", "Read this. The harbour was closed. And this."
        for prompt in (short, long):
            say(MODEL, [prompt], [ANSWER])
        first, second = recorder.generations
        for like, expected in ((short, first), (long, second), (None, second)):
            found = recorder.find_shown(ANSWER, contains=[short], like=like)
            assert found is not None
            assert found[0].prompt_ids == expected.prompt_ids
        assert recorder.find_shown(ANSWER, contains=[short], like="neither") is None


class TestForgetting:
    def test_a_generation_is_kept_no_longer(self, recorder: GenerationRecorder) -> None:
        """Nor one that was found cut; equal ones, as rows of a batch, are told apart."""
        say(MODEL, [rendered(MODEL)] * 2, [ANSWER] * 2)
        say(MODEL, [rendered(MODEL)], [ANSWER])
        say(MODEL, [rendered(MODEL)], ["By the river."])
        first, second, third, last = recorder.generations
        for _ in range(2):
            recorder.forget(second)
            assert list(recorder.generations) == [first, third, last]
        latest = found_by(recorder, "In the old")
        recorder.forget(latest)
        assert list(recorder.generations) == [first, last]
        recorder.forget(first)
        assert recorder.find(ANSWER) is None

    def test_its_memory_is_given_back_and_what_comes_later_is_kept(
        self, recorder: GenerationRecorder
    ) -> None:
        answer()
        (generation,) = recorder.generations
        assert generation.cache is not None
        alive = [weakref.ref(tensor) for layer in generation.cache for tensor in layer]
        recorder.forget(generation)
        del generation
        gc.collect()
        assert [reference() for reference in alive] == [None] * 4
        answer()
        assert len(recorder.generations) == 1


class Gate(StoppingCriteria):
    """Holds a generation before its end until it is opened."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
        self.reached.set()
        assert self.opened.wait(scaled(60))
        return torch.zeros(len(input_ids), dtype=torch.bool)


@contextmanager
def running(*prompts: str, gate: Gate | None = None, **inputs: Any) -> Iterator[Gate]:
    """The model answers prompts, or inputs of `generate`; it goes on when the gate is opened."""
    gate = gate or Gate()
    options = {**inputs, "stopping_criteria": StoppingCriteriaList([gate])}
    given = (MODEL, prompts, [ANSWER] * len(prompts)) if prompts else (MODEL,)
    thread = threading.Thread(target=say if prompts else generate, args=given, kwargs=options)
    thread.start()
    try:
        assert gate.reached.wait(scaled(60))
        yield gate
    finally:
        gate.opened.set()
        thread.join()


class TestWaiting:
    def test_a_streamed_answer_is_found_before_generate_returns(
        self, recorder: GenerationRecorder
    ) -> None:
        streamer = TextIteratorStreamer(MODEL.tokenizer, skip_prompt=True, skip_special_tokens=True)
        thread = threading.Thread(
            target=say, args=(MODEL, [rendered(MODEL)], [ANSWER]), kwargs={"streamer": streamer}
        )
        thread.start()
        text = "".join(streamer)
        found = recorder.find(text, prompt=rendered(MODEL), timeout=scaled(60))
        thread.join()
        assert text == ANSWER
        assert found is not None
        assert found.response_ids == MODEL.encode(ANSWER)
        assert found.cache is not None

    def test_waits_for_what_is_under_way(self, recorder: GenerationRecorder) -> None:
        with running(rendered(MODEL)) as gate:
            assert recorder.find(ANSWER) is None
            assert recorder.find(ANSWER, timeout=0.01) is None
            recorder.wait_until_idle(0.01)
            assert recorder.generations == ()
            threading.Timer(0.1, gate.opened.set).start()
            assert recorder.find(ANSWER, timeout=scaled(60)) is not None
            recorder.wait_until_idle(60)
            assert len(recorder.generations) == 1

    def test_does_not_wait_for_what_began_later(self, recorder: GenerationRecorder) -> None:
        """Steady traffic must not hold up the search for an answer that was never recorded."""
        found: list[Generation | None] = []
        search = threading.Thread(
            target=lambda: found.append(recorder.find("never said", timeout=scaled(600)))
        )
        with running(rendered(MODEL)) as gate:
            search.start()
            time.sleep(0.1)
            with running(rendered(MODEL)):
                gate.opened.set()
                search.join(60)
                assert found == [None]

    def test_another_prompt_s_generation_is_not_waited_for(
        self, recorder: GenerationRecorder
    ) -> None:
        other = rendered(MODEL, question="Who closed the harbour?")
        with running(rendered(MODEL)):
            for asked in ({"prompt": other}, {"contains": ["Who closed the harbour?"]}):
                match = recorder.match(ANSWER, **asked)
                assert match.done()
                assert match.result() is None
                assert recorder.find(ANSWER, timeout=scaled(600), **asked) is None

    @pytest.mark.parametrize("row", [0, 1])
    def test_rows_of_a_padded_batch_are_waited_for(
        self, recorder: GenerationRecorder, row: int
    ) -> None:
        prompts = [rendered(MODEL, DOCUMENTS[:count]) for count in (1, 2)]
        with running(*prompts) as gate:
            match = recorder.match(ANSWER, prompt=prompts[row])
            assert not match.done()
            gate.opened.set()
            found = match.result(scaled(60))
        assert found is not None
        assert found.generation.prompt_ids == MODEL.encode_prompt(prompts[row])

    def test_a_prompt_of_embeddings_is_not_waited_for(self, recorder: GenerationRecorder) -> None:
        embeddings = MODEL.model.get_input_embeddings()(PROMPT_IDS)
        with running(inputs_embeds=embeddings, max_new_tokens=2):
            assert recorder.match(ANSWER).done()
        assert [one.prompt_ids for one in recorder.generations] == [()]  # to be refused by name

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    def test_a_call_that_fails_ends_the_wait(self, recorder: GenerationRecorder) -> None:
        class Failing(Gate):
            def __call__(self, *args: Any, **kwargs: Any) -> torch.Tensor:
                super().__call__(*args, **kwargs)
                raise RuntimeError("out of memory")

        with running(rendered(MODEL), gate=Failing()) as gate:
            match = recorder.match(ANSWER, contains=[DOCUMENTS[0]])
            assert not match.done()
            gate.opened.set()
            assert match.result(scaled(60)) is None

    def test_threads_that_attach_and_detach_lose_nothing(self) -> None:
        before = dict(vars(MODEL.model))
        lost: list[int] = []

        def work(seed: int) -> None:
            for _ in range(20):
                with GenerationRecorder(MODEL) as own:
                    answer(seed)
                if all(one.prompt_ids[0] != 20 + seed for one in own.generations):
                    lost.append(seed)

        at_once(*(partial(work, seed) for seed in range(4)))
        assert lost == []
        assert vars(MODEL.model) == before


def test_text_that_was_not_generated_is_refused() -> None:
    generation = Generation((5, 6), MODEL.encode(ANSWER))
    with pytest.raises(InvalidInput, match="Somewhere else"):
        shown_part(MODEL, generation, "Somewhere else")
