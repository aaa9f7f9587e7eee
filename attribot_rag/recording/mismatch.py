"""The reasons, in words, why an answer matches no recorded generation."""

from __future__ import annotations

from collections.abc import Sequence

from rapidfuzz.distance import Prefix

from attribot_rag.recording.transcript import Answer, Transcript

_WORDS = 6
_LONGEST = 60  # characters of words that are shown
_MODEL = "pass the model that answers, before it answers, or a local copy of it as language_model="
_ELSEWHERE = f"another model or a cache gave it, or something changed its text; {_MODEL}"


def mismatch(answer: Answer, kept: Sequence[Transcript]) -> str:
    """The difference of the answer and its prompt from these generations, latest first.

    The first words that differ, of the prompt if the model gave this text, of the text if it was
    given this prompt.
    """
    same_text = [transcript for transcript in kept if transcript.shown_part(answer.text)]
    if same_text:
        return _other_prompt(answer, same_text)
    same_prompt = [
        transcript
        for transcript in kept
        if transcript.prompt.ids and transcript.prompt.fits(None, answer.prompt_texts)
    ]
    if not same_prompt or not answer.prompt_texts:
        return _ELSEWHERE
    said, shown = same_prompt[0].response.text.strip(), answer.text.strip()
    place = Prefix.similarity(said, shown)
    return (
        f"to this prompt it answered {_words(said, place)} where this answer has "
        f"{_words(shown, place)}: another model gave that, or something changed the text before it "
        f"was observed; {_MODEL}"
    )


def _other_prompt(answer: Answer, kept: Sequence[Transcript]) -> str:
    prompt = kept[0].prompt.tokens.text
    missing = next((text for text in answer.prompt_texts if text.strip() not in prompt), None)
    if missing is None:
        return (
            f"it gave this text to {len(kept)} prompts, which differ, and none of them is the one "
            "that was observed; have a single model answer each prompt once"
        )
    text = missing.strip()
    place, at = _longest_beginning(text, prompt)
    if not place:
        at = -1
    read = f"{_words(prompt, at + place)} there" if at >= 0 else "no such text"
    return (
        f"it gave this text to another prompt: where the observed prompt has {_words(text, place)},"
        f" the model read {read}; something between changed the prompt, such as a wrapper that "
        f"drops a system message. Observe what comes behind it, or {_MODEL}"
    )


def _longest_beginning(text: str, prompt: str) -> tuple[int, int]:
    """The length of the longest prefix of the text in the prompt, and its place."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if text[:middle] in prompt:
            low = middle
        else:
            high = middle - 1
    return (low, prompt.find(text[:low])) if low >= min(len(text), _LONGEST // 4) else (0, -1)


def _words(text: str, place: int) -> str:
    """The first words from the beginning of the word at this place on, or 'nothing more'."""
    while 0 < place < len(text) and not text[place].isspace() and not text[place - 1].isspace():
        place -= 1
    words = " ".join(text[place : place + 4 * _LONGEST].split()[:_WORDS])
    return repr(words[:_LONGEST]) if words else "nothing more"
