"""Generations are kept, for some time, and matched with answers."""

import gc
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from support.patience import scaled
from support.scripted_generation import ANSWER, DOCUMENTS, generate, rendered, say
from support.tiny_models import byt5, byte_level, metaspace
from transformers import StoppingCriteria, StoppingCriteriaList, TextIteratorStreamer

from attribot_rag.errors import InvalidInput
from attribot_rag.model.generation import Generation
from attribot_rag.model.language_model import LanguageModel
from attribot_rag.recording import Answer, GenerationRecorder, Transcript

PROMPT_IDS = torch.arange(20, 60)[None]


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return byte_level()


@pytest.fixture
def recorder(model: LanguageModel) -> Iterator[GenerationRecorder]:
    with GenerationRecorder(model) as recorder:
        yield recorder


def generation_of(answer: Answer | None) -> Generation:
    assert answer is not None
    assert answer.transcript is not None
    return answer.transcript.generation


def answer(model: LanguageModel, seed: int = 0) -> None:
    generate(model, PROMPT_IDS + seed, max_new_tokens=3, do_sample=False)


class TestBounds:
    def test_only_the_last_generations_are_kept(self, model: LanguageModel) -> None:
        with GenerationRecorder(model, max_generations=3) as recorder:
            for seed in range(5):
                answer(model, seed)
        assert [generation.prompt_ids[0] for generation in recorder.generations] == [22, 23, 24]

    def test_a_batch_larger_than_the_bound(self, model: LanguageModel) -> None:
        with GenerationRecorder(model, max_generations=2) as recorder:
            generate(model, PROMPT_IDS.repeat(5, 1), max_new_tokens=3, do_sample=False)
        assert len(recorder.generations) == 2

    def test_the_oldest_lose_their_caches_first(self, model: LanguageModel) -> None:
        with GenerationRecorder(model) as recorder:
            answer(model)
        size = recorder.generations[0].num_bytes
        assert size >= 2 * 2 * 40 * 16 * 4  # layers, keys and values, positions, width, float32
        with GenerationRecorder(model, max_cache_bytes=2 * size) as recorder:
            for seed in range(4):
                answer(model, seed)
        assert [generation.cache is not None for generation in recorder.generations] == [0, 0, 1, 1]
        assert sum(generation.num_bytes for generation in recorder.generations) == 2 * size

    def test_rows_of_a_batch_do_not_keep_each_other_alive(self, model: LanguageModel) -> None:
        with GenerationRecorder(model) as recorder:
            generate(model, PROMPT_IDS.repeat(4, 1), max_new_tokens=3, do_sample=False)
        sizes = [generation.num_bytes for generation in recorder.generations]
        assert sizes == [2 * 2 * 40 * 16 * 4] * 4

    def test_releasing_drops_one_cache_and_keeps_the_ids(self, model: LanguageModel) -> None:
        with GenerationRecorder(model) as recorder:
            generate(model, PROMPT_IDS, max_new_tokens=3, do_sample=True, num_return_sequences=2)
        first, second = recorder.generations
        recorder.release(first.truncated(1))
        assert [generation.cache is None for generation in recorder.generations] == [True, False]
        assert recorder.generations[0].response_ids == first.response_ids
        recorder.release(second)
        assert all(generation.num_bytes == 0 for generation in recorder.generations)

    @pytest.mark.slow
    def test_two_hundred_generations_leave_bounded_memory(self, model: LanguageModel) -> None:
        alive: list[weakref.ref[torch.Tensor]] = []
        with GenerationRecorder(model, max_generations=4) as recorder:
            for seed in range(200):
                answer(model, seed)
                cache = recorder.generations[-1].cache
                assert cache is not None
                alive += [weakref.ref(tensor) for layer in cache for tensor in layer]
        del cache
        gc.collect()
        assert len(recorder.generations) == 4
        assert sum(reference() is not None for reference in alive) == 4 * 2 * 2


class TestFinding:
    def test_the_same_answer_to_different_prompts(
        self, model: LanguageModel, recorder: GenerationRecorder
    ) -> None:
        prompts = [rendered(model, [document]) for document in DOCUMENTS]
        for prompt in prompts:
            say(model, [prompt], [ANSWER])
        for prompt, document in zip(prompts, DOCUMENTS, strict=True):
            for match in (
                recorder.find(ANSWER, prompt=prompt),
                recorder.find(ANSWER, contains=[document]),
                recorder.find(ANSWER, contains=[f"\n {document} "]),
            ):
                assert match is not None
                assert match.prompt_ids == model.encode_prompt(prompt)
        latest = recorder.find(ANSWER)
        assert latest is not None
        assert latest.prompt_ids == model.encode_prompt(prompts[-1])

    def test_what_was_not_said_or_asked_is_not_found(
        self, model: LanguageModel, recorder: GenerationRecorder
    ) -> None:
        prompt = rendered(model)
        say(model, [prompt], [ANSWER])
        assert recorder.find("Another answer.") is None
        assert recorder.find(ANSWER + " And more.") is None
        assert recorder.find(ANSWER, prompt=prompt + "x") is None
        assert recorder.find(ANSWER, prompt=DOCUMENTS[0]) is None
        assert recorder.find(ANSWER, contains=[DOCUMENTS[0], "not in the prompt"]) is None
        assert recorder.find("") is None
        assert recorder.find(" \n") is None

    def test_rows_of_a_padded_batch(
        self, model: LanguageModel, recorder: GenerationRecorder
    ) -> None:
        prompts = [rendered(model, DOCUMENTS[:count]) for count in (1, 3, 2)]
        answers = ["In the town hall.", "In October, in the old town hall.", "By the river."]
        say(model, prompts, answers)
        for prompt, text in zip(prompts, answers, strict=True):
            match = recorder.find(text, prompt=prompt)
            assert match is not None
            assert match.prompt_ids == model.encode_prompt(prompt)
            assert match.response_ids == model.encode(text)

    def test_eos_is_no_token_of_the_answer(
        self, model: LanguageModel, recorder: GenerationRecorder
    ) -> None:
        sequences = say(model, [rendered(model)], [ANSWER])
        assert sequences[0, -1] == model.tokenizer.eos_token_id
        assert recorder.generations[0].response_ids == model.encode(ANSWER)

    @pytest.mark.parametrize("build", [byte_level, metaspace, byt5])
    def test_a_stopped_answer_is_cut_to_what_was_shown(self, build: Any) -> None:
        model: LanguageModel = build()
        with GenerationRecorder(model) as recorder:
            say(model, [rendered(model)], [ANSWER + " 🙂 Ja, 条約!"])
        full = recorder.generations[0]
        for shown in (ANSWER, "In the old", "In the old town h", ANSWER + " 🙂", ANSWER + " 🙂 J"):
            match = recorder.find(shown)
            assert match is not None
            cut = model.decode(match.response_ids)
            assert cut.strip().startswith(shown)
            assert match.response_ids == full.response_ids[: len(match.response_ids)]
            shorter = model.decode(match.response_ids[:-1])
            assert not shorter.strip().startswith(shown)

    @pytest.mark.parametrize("around", [(" ", ""), ("", "\n"), ("\n\n", " \t")])
    def test_space_around_the_answer_does_not_matter(
        self, model: LanguageModel, recorder: GenerationRecorder, around: tuple[str, str]
    ) -> None:
        shown = f"{around[1]}{ANSWER}{around[0]}"
        say(model, [rendered(model)], [shown])
        match = recorder.find(f"{around[0]}{ANSWER}{around[1]}")
        assert match is not None
        assert model.decode(match.response_ids).strip() == ANSWER
        assert model.decode(match.response_ids) == shown.rstrip() or not shown[-1:].strip()

    def test_a_prompt_is_known_with_and_without_its_special_tokens(
        self, model: LanguageModel, recorder: GenerationRecorder
    ) -> None:
        prompt = rendered(model)
        say(model, [prompt], [ANSWER])
        bare = model.decode(model.encode_prompt(prompt), skip_special_tokens=True)
        assert bare != prompt
        assert recorder.find(ANSWER, prompt=bare) is not None

    @pytest.mark.parametrize("num_bos", [0, 1, 2])
    def test_a_prompt_is_known_whatever_bos_was_put_before_it(self, num_bos: int) -> None:
        model = metaspace()
        prompt = rendered(model)
        with GenerationRecorder(model) as recorder:
            say(model, ["<s>" * num_bos + prompt], [ANSWER])
        assert recorder.generations[0].prompt_ids[:num_bos] == (1,) * num_bos
        for wanted in (prompt, "<s>" + prompt, "<s><s>" + prompt):
            assert recorder.find(ANSWER, prompt=wanted) is not None

    def test_recorded_answers_are_found_after_detaching(self, model: LanguageModel) -> None:
        with GenerationRecorder(model) as recorder:
            say(model, [rendered(model)], [ANSWER])
        assert recorder.find(ANSWER, timeout=scaled(60)) is not None


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
            match = recorder.find_answer(Answer(prompt + shown, prompt_texts=[DOCUMENTS[1]]))
            generation = generation_of(match)
            assert match is not None and match.start == len(prompt)
            assert generation.prompt_ids == recorder.generations[0].prompt_ids
            assert model.decode(generation.response_ids).strip().startswith(shown)
            assert len(generation.response_ids) <= len(recorder.generations[0].response_ids)

    @pytest.mark.parametrize("around", [("", ""), (" ", ""), ("\n\n", " \t")])
    def test_an_answer_alone_begins_where_its_text_does(
        self, model: LanguageModel, recorder: GenerationRecorder, around: tuple[str, str]
    ) -> None:
        say(model, [rendered(model)], [ANSWER])
        match = recorder.find_answer(Answer(f"{around[0]}{ANSWER}{around[1]}"))
        assert match is not None and match.start == 0
        assert generation_of(match).response_ids == model.encode(ANSWER)

    def test_another_prompt_before_the_answer(
        self, model: LanguageModel, recorder: GenerationRecorder
    ) -> None:
        prompts = [rendered(model, [document]) for document in DOCUMENTS]
        for prompt in prompts:
            say(model, [prompt], [ANSWER])
        for prompt in prompts:
            match = recorder.find_answer(Answer(prompt + ANSWER))
            assert generation_of(match).prompt_ids == model.encode_prompt(prompt)
            assert match is not None and match.start == len(prompt)
        other = rendered(model) + ANSWER
        for shown in (other, prompts[0] + "Another answer.", prompts[0], prompts[0] + " \n"):
            assert recorder.find_answer(Answer(shown)) is None

    def test_an_answer_that_repeats_its_prompt(
        self, model: LanguageModel, recorder: GenerationRecorder
    ) -> None:
        prompt = "\n".join([*DOCUMENTS, "Say it again."])
        say(model, [prompt], [prompt + ANSWER])
        (generation,) = recorder.generations
        match = recorder.find_answer(Answer(prompt + ANSWER))
        assert match is not None and match.start == 0
        assert generation_of(match).response_ids == generation.response_ids

    def test_find_is_the_same_without_the_place(
        self, model: LanguageModel, recorder: GenerationRecorder
    ) -> None:
        say(model, [rendered(model)], [ANSWER])
        match = recorder.find(rendered(model) + ANSWER)
        assert match is not None
        assert match.response_ids == model.encode(ANSWER)


class TestForgetting:
    def test_a_generation_is_kept_no_longer(
        self, model: LanguageModel, recorder: GenerationRecorder
    ) -> None:
        say(model, [rendered(model)], [ANSWER])
        say(model, [rendered(model)], ["By the river."])
        first, second = recorder.generations
        recorder.forget(first)
        assert list(recorder.generations) == [second]
        assert recorder.find(ANSWER) is None
        recorder.forget(first)
        assert list(recorder.generations) == [second]

    def test_nor_one_that_was_found_cut(
        self, model: LanguageModel, recorder: GenerationRecorder
    ) -> None:
        say(model, [rendered(model)], [ANSWER])
        match = recorder.find("In the old")
        assert match is not None
        recorder.forget(match)
        assert recorder.generations == ()

    def test_equal_ones_are_told_apart(
        self, model: LanguageModel, recorder: GenerationRecorder
    ) -> None:
        """Rows of one batch and calls with one prompt have equal ids, but are not the same."""
        say(model, [rendered(model)] * 2, [ANSWER] * 2)
        say(model, [rendered(model)], [ANSWER])
        generations = recorder.generations
        recorder.forget(generations[1])
        assert list(recorder.generations) == [generations[0], generations[2]]
        latest = recorder.find(ANSWER)
        assert latest is not None
        recorder.forget(latest)
        assert list(recorder.generations) == [generations[0]]

    def test_its_memory_is_given_back(
        self, model: LanguageModel, recorder: GenerationRecorder
    ) -> None:
        answer(model)
        (generation,) = recorder.generations
        assert generation.cache is not None
        alive = [weakref.ref(tensor) for layer in generation.cache for tensor in layer]
        recorder.forget(generation)
        del generation
        gc.collect()
        assert [reference() for reference in alive] == [None] * 4

    def test_what_comes_later_is_kept(
        self, model: LanguageModel, recorder: GenerationRecorder
    ) -> None:
        answer(model)
        recorder.forget(recorder.generations[0])
        answer(model)
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


class TestWaiting:
    def test_a_streamed_answer_is_found_before_generate_returns(
        self, model: LanguageModel, recorder: GenerationRecorder
    ) -> None:
        streamer = TextIteratorStreamer(model.tokenizer, skip_prompt=True, skip_special_tokens=True)
        thread = threading.Thread(
            target=say, args=(model, [rendered(model)], [ANSWER]), kwargs={"streamer": streamer}
        )
        thread.start()
        text = "".join(streamer)
        match = recorder.find(text, prompt=rendered(model), timeout=scaled(60))
        thread.join()
        assert text == ANSWER
        assert match is not None
        assert match.response_ids == model.encode(ANSWER)
        assert match.cache is not None

    def test_waits_for_what_is_under_way(
        self, model: LanguageModel, recorder: GenerationRecorder
    ) -> None:
        gate = Gate()
        thread = threading.Thread(
            target=say,
            args=(model, [rendered(model)], [ANSWER]),
            kwargs={"stopping_criteria": StoppingCriteriaList([gate])},
        )
        thread.start()
        assert gate.reached.wait(scaled(60))
        assert recorder.find(ANSWER) is None
        assert recorder.find(ANSWER, timeout=0.01) is None
        threading.Timer(0.1, gate.opened.set).start()
        match = recorder.find(ANSWER, timeout=scaled(60))
        thread.join()
        assert match is not None

    def test_does_not_wait_for_what_began_later(
        self, model: LanguageModel, recorder: GenerationRecorder
    ) -> None:
        """Steady traffic must not hold up the search for an answer that was never recorded."""
        gates = [Gate(), Gate()]
        threads = [
            threading.Thread(
                target=say,
                args=(model, [rendered(model)], [ANSWER]),
                kwargs={"stopping_criteria": StoppingCriteriaList([gate])},
            )
            for gate in gates
        ]
        threads[0].start()
        assert gates[0].reached.wait(scaled(60))
        matches: list[Generation | None] = []
        search = threading.Thread(
            target=lambda: matches.append(recorder.find("never said", timeout=scaled(600)))
        )
        search.start()
        time.sleep(0.1)
        threads[1].start()
        assert gates[1].reached.wait(scaled(60))
        gates[0].opened.set()
        search.join(60)
        assert matches == [None]
        gates[1].opened.set()
        for thread in threads:
            thread.join()

    @contextmanager
    def running(self, model: LanguageModel, *prompts: str, **options: Any) -> Iterator[Gate]:
        """The model answers these prompts, and goes on when the gate is opened or at the end."""
        gate = Gate()
        criteria = StoppingCriteriaList([gate])
        answers = [ANSWER] * len(prompts)
        thread = threading.Thread(
            target=say, args=(model, prompts, answers), kwargs={"stopping_criteria": criteria}
        )
        thread.start()
        try:
            assert gate.reached.wait(scaled(60))
            yield gate
        finally:
            gate.opened.set()
            thread.join()

    def test_another_prompt_s_generation_is_not_waited_for(
        self, model: LanguageModel, recorder: GenerationRecorder
    ) -> None:
        other = rendered(model, question="Who closed the harbour?")
        with self.running(model, rendered(model)):
            for wanted in ({"prompt": other}, {"contains": ["Who closed the harbour?"]}):
                assert recorder.find(ANSWER, timeout=scaled(600), **wanted) is None
            match = recorder.match(Answer(ANSWER), prompt=other)
            assert match.done()
            assert match.result() is None

    @pytest.mark.parametrize("row", [0, 1])
    def test_rows_of_a_padded_batch_are_waited_for(
        self, model: LanguageModel, recorder: GenerationRecorder, row: int
    ) -> None:
        prompts = [rendered(model, DOCUMENTS[:count]) for count in (1, 2)]
        with self.running(model, *prompts) as gate:
            match = recorder.match(Answer(ANSWER), prompt=prompts[row])
            assert not match.done()
            gate.opened.set()
            answer = match.result(scaled(60))
        assert generation_of(answer).prompt_ids == model.encode_prompt(prompts[row])

    def test_a_prompt_of_embeddings_is_not_waited_for(
        self, model: LanguageModel, recorder: GenerationRecorder
    ) -> None:
        gate = Gate()
        embeddings = model.model.get_input_embeddings()(PROMPT_IDS)
        thread = threading.Thread(
            target=generate,
            args=(model,),
            kwargs={
                "inputs_embeds": embeddings,
                "max_new_tokens": 2,
                "stopping_criteria": StoppingCriteriaList([gate]),
            },
        )
        thread.start()
        try:
            assert gate.reached.wait(scaled(60))
            assert recorder.match(Answer(ANSWER)).done()
        finally:
            gate.opened.set()
            thread.join()
        assert [generation.prompt_ids for generation in recorder.generations] == [
            ()
        ]  # to be refused by name

    def test_a_call_that_fails_ends_the_wait(
        self, model: LanguageModel, recorder: GenerationRecorder
    ) -> None:
        class Failing(Gate):
            def __call__(self, *args: Any, **kwargs: Any) -> torch.Tensor:
                super().__call__(*args, **kwargs)
                raise RuntimeError("out of memory")

        gate = Failing()

        def fail() -> None:
            with pytest.raises(RuntimeError, match="out of memory"):
                say(model, [rendered(model)], [ANSWER], stopping_criteria=[gate])

        thread = threading.Thread(target=fail)
        thread.start()
        assert gate.reached.wait(scaled(60))
        match = recorder.match(Answer(ANSWER, prompt_texts=[DOCUMENTS[0]]))
        assert not match.done()
        gate.opened.set()
        assert match.result(scaled(60)) is None
        thread.join()

    def test_idle_is_when_all_have_returned(
        self, model: LanguageModel, recorder: GenerationRecorder
    ) -> None:
        gate = Gate()
        thread = threading.Thread(
            target=say,
            args=(model, [rendered(model)], [ANSWER]),
            kwargs={"stopping_criteria": StoppingCriteriaList([gate])},
        )
        thread.start()
        assert gate.reached.wait(scaled(60))
        counts = []
        recorder.wait_until_idle(0.01)
        counts.append(len(recorder.generations))
        gate.opened.set()
        recorder.wait_until_idle(60)
        counts.append(len(recorder.generations))
        assert counts == [0, 1]
        thread.join()

    def test_threads_that_attach_and_detach_lose_nothing(self, model: LanguageModel) -> None:
        before = dict(vars(model.model))
        lost: list[int] = []

        def work(seed: int) -> None:
            for _ in range(20):
                with GenerationRecorder(model) as own:
                    answer(model, seed)
                if all(generation.prompt_ids[0] != 20 + seed for generation in own.generations):
                    lost.append(seed)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert lost == []
        assert vars(model.model) == before


def test_text_that_was_not_generated_is_refused(model: LanguageModel) -> None:
    generation = Generation((5, 6), model.encode(ANSWER))
    with pytest.raises(InvalidInput, match="Somewhere else"):
        Transcript.of(generation, model).cut_to("Somewhere else")


class TestFindShownLike:
    """The choice among several generations that fit."""

    def test_a_prompt_like_the_one_that_was_given_comes_first(self) -> None:
        language_model = byte_level()
        short, long = "The harbour was closed.", "Read this. The harbour was closed. And this."
        with GenerationRecorder(language_model) as recorder:
            for prompt in (short, long):
                inputs = torch.tensor([language_model.encode(prompt)])
                language_model.model.generate(  # type: ignore[operator]
                    inputs,
                    attention_mask=torch.ones_like(inputs),
                    max_new_tokens=4,
                    do_sample=False,
                    suppress_tokens=[i for i in range(language_model.vocabulary_size) if i != 70],
                )
        first, second = recorder.generations
        answer = language_model.decode(first.response_ids)
        assert answer == language_model.decode(second.response_ids)
        for like, expected in ((short, first), (long, second)):
            match = recorder.find_answer(Answer(answer, prompt_texts=[short], prompt=like))
            assert generation_of(match).prompt_ids == expected.prompt_ids
        unlike = Answer(answer, prompt_texts=[short], prompt="neither")
        assert recorder.find_answer(unlike) is None
        latest = recorder.find_answer(Answer(answer, prompt_texts=[short]))
        assert generation_of(latest).prompt_ids == second.prompt_ids
