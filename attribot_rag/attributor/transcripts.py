"""Match a response to its recorded generation, or tokenize it; prompts of questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, cast

from rapidfuzz.distance import Prefix

from attribot_rag.attributor.prompts import check_texts, rag_prompt
from attribot_rag.context import Document
from attribot_rag.context.document import Documents, documents_of
from attribot_rag.errors import InvalidInput
from attribot_rag.model.chat_messages import (
    Message,
    continued_text,
    readable,
    verbatim_texts,
)
from attribot_rag.model.generation import Generation
from attribot_rag.model.language_model import (
    LanguageModel,
    Prompt,
    is_chat,
    plain_ids,
)
from attribot_rag.recording import (
    Answer,
    GenerationRecorder,
    PromptText,
    Transcript,
    generate_answer,
)


def answered(
    question: str,
    documents: Documents,
    language_model: LanguageModel,
    *,
    max_new_tokens: int,
    **settings: Any,
) -> tuple[Generation, str | list[Message], tuple[Document, ...]]:
    """The model's answer from the documents, its prompt, and the documents that were read.

    An answer has as many tokens as fit into the model's positions. Raises InvalidInput for an empty
    question, no documents, or an empty answer, ContextTooLong before anything is generated.
    """
    if not isinstance(question, str) or not question.strip():
        raise InvalidInput(f"the question is empty, or no text: {question!r:.80}")
    chunks = documents_of(documents)
    check_texts("the question", question, chunks)
    prompt = rag_prompt(question, chunks, bool(language_model.tokenizer.chat_template))
    prompt_ids = language_model.encode_prompt(prompt)
    room = language_model.room(len(prompt_ids))
    most = max_new_tokens if room is None else min(max_new_tokens, room)
    generation = generate_answer(language_model, prompt_ids, max_new_tokens=most, **settings)
    if generation is None:
        raise InvalidInput(
            f"the model answered {question!r} with nothing; ask in other words, or set "
            "min_new_tokens"
        )
    return generation, prompt, chunks


_WAIT = 30.0  # seconds for a generation that runs
_EXCERPT = 60  # characters


def transcript_of(
    prompt: Prompt,
    response: str | Sequence[int],
    language_model: LanguageModel,
    recorder: GenerationRecorder,
) -> tuple[Transcript, str | None, str]:
    """The generation, the response's text for its reader (None for ids), and a note or ''.

    Raises InvalidInput for an empty prompt or response.
    """
    rendered = PromptText(language_model.encode_prompt(prompt), language_model)
    shown: str | None = None
    if isinstance(response, str):
        shown = _without_prompt(prompt, rendered, response)
        transcript = _by_text(rendered, shown, recorder)
        begun = continued_text(cast(Sequence[Message], prompt)) if is_chat(prompt) else ""
        if begun and transcript.generation.retokenized and shown.startswith(begun):
            shown = _without_prompt(prompt, rendered, shown.removeprefix(begun))
            transcript = _by_text(rendered, shown, recorder)
    else:
        response_ids = _answer_ids(rendered.ids, plain_ids(response), language_model)
        retokenized = isinstance(prompt, str) or is_chat(prompt)
        generation = Generation(rendered.ids, response_ids, retokenized=retokenized)
        transcript = Transcript.of(_by_ids(generation, recorder), language_model)
    note = ""
    if transcript.generation.retokenized:
        if recorder.generations:
            transcript, note = _to_another_prompt(transcript, prompt, recorder)
        if refusal := recorder.refusal(Answer(transcript.response.text)):
            note = note or f"The generation of this answer could not be used: {refusal}."
    return transcript, shown, note


def read_transcript(
    prompt: Prompt, response: str | Sequence[int], reader: LanguageModel
) -> tuple[Transcript, str]:
    """The reader's tokens of another model's prompt and answer, and the answer's text.

    Raises InvalidInput for token ids, and for an empty prompt or response.
    """
    if not isinstance(response, str) or not (isinstance(prompt, str) or is_chat(prompt)):
        raise InvalidInput(
            "a reader does not know the token ids of the model that answered; pass prompt and "
            "response as texts, or the prompt as chat messages"
        )
    read = prompt
    if is_chat(prompt):
        read = readable(cast(Sequence[Message], prompt), reader.tokenizer)
    rendered = PromptText(reader.encode_prompt(read), reader)
    shown = _without_prompt(prompt, rendered, response)
    return Transcript(
        Generation(rendered.ids, reader.encode(shown), retokenized=True), rendered
    ), shown


def _without_prompt(prompt: Prompt, rendered: PromptText, response: str) -> str:
    """The response without the prompt before it and the special tokens after it."""
    given = response[:60]
    before = (prompt,) if isinstance(prompt, str) else ()
    for text in chain(before, rendered.texts):
        if text.strip() and response.startswith(text):
            response = response[len(text) :]
            break
    special_tokens = tuple(rendered.language_model.tokenizer.all_special_tokens)
    while special_tokens and response.endswith(special_tokens):
        response = response.removesuffix(
            next(token for token in special_tokens if response.endswith(token))
        )
    if not response.strip():
        raise InvalidInput(
            f"the response {given!r} is empty, but for the prompt: nothing can be attributed"
        )
    return response


def _answer_ids(
    prompt_ids: tuple[int, ...], response_ids: tuple[int, ...], language_model: LanguageModel
) -> tuple[int, ...]:
    """The response without the prompt before it and the end of sequence after it."""
    if response_ids[: len(prompt_ids)] == prompt_ids:
        response_ids = response_ids[len(prompt_ids) :]
    if language_model.weights.is_encoder_decoder:
        starts_so = response_ids[:1] == language_model.weights.decoder_start_ids
        response_ids = response_ids[1:] if starts_so else response_ids
    ends = (i for i, token_id in enumerate(response_ids) if token_id in language_model.eos_ids)
    return response_ids[: next(ends, None)]


def _by_text(prompt: PromptText, response: str, recorder: GenerationRecorder) -> Transcript:
    """The recorded generation of this response, or else one made of its text."""
    match = recorder.find_answer(Answer(response), prompt=prompt.tokens.text, timeout=_WAIT)
    if match is not None and match.transcript is not None:
        return match.transcript
    response_ids = prompt.language_model.encode(response)
    return Transcript(Generation(prompt.ids, response_ids, retokenized=True), prompt)


def _by_ids(generation: Generation, recorder: GenerationRecorder) -> Generation:
    """The recorded generation with these ids, or else the one that was given."""
    length = len(generation.response_ids)
    for recorded in reversed(recorder.generations):
        cut = recorded.truncated(length)
        if (cut.prompt_ids, cut.response_ids) == (generation.prompt_ids, generation.response_ids):
            return cut
    return generation


def _to_another_prompt(
    transcript: Transcript, prompt: Prompt, recorder: GenerationRecorder
) -> tuple[Transcript, str]:
    """The generation to score for an unrecorded prompt, and a note, or ''.

    It is a recorded one that gave this answer and whose prompt holds the messages of users, tools
    and system: then the template was given more than these messages. It is `transcript` otherwise.
    The note says where the prompts differ.
    """
    rendered = transcript.prompt.tokens.text
    answer = Answer(transcript.response.text)
    match = None
    if is_chat(prompt):
        texts = verbatim_texts(cast(Sequence[Message], prompt))
        like = replace(answer, prompt_texts=texts, prompt=rendered)
        match = recorder.find_answer(like, timeout=_WAIT)
    is_same = match is not None
    match = match or recorder.find_answer(answer, timeout=_WAIT)
    if match is None or match.transcript is None:
        return transcript, ""
    recorded = match.transcript.prompt.tokens.text
    start = Prefix.similarity(recorded, rendered)
    end = start + _EXCERPT
    differ = (
        f"at character {start}, where the model saw {recorded[start:end]!r} and this prompt has "
        f"{rendered[start:end]!r}"
    )
    if is_same:
        return match.transcript, (
            "The recorded generation of this answer was used. Its prompt is not what the chat "
            f"template makes of these messages alone: they differ {differ}."
        )
    return transcript, (
        f"A recorded generation gave this answer to another prompt. The two differ {differ}. To "
        "attribute that generation, pass as the prompt the token ids that the model was given."
    )
