"""The markers that a model wrote number its citations from the first sentence on, judged or not."""

from support.tiny_models import byte_level

from attribot_rag import Attribution, Attributor

DOCUMENTS = ["The hall was built in 1621.", "Many ships came with salt.", "Letters are lost."]
PROMPT = "\n".join([*DOCUMENTS, "What do you know?"])
ANSWER = "The ships came with salt [2]. Many letters are lost [3]. It is so."


def places(attribution: Attribution) -> list[tuple[int, int | None, int | None]]:
    return [(marker.start, marker.number, marker.document) for marker in attribution.markers]


def test_markers_are_those_of_the_whole_result() -> None:
    attributor = Attributor(byte_level(), progress=False)
    parts: list[Attribution] = []
    whole = attributor.attribute(PROMPT, ANSWER, DOCUMENTS, on_sentence=parts.append)
    scores = Attributor(byte_level(), progress=False, verdicts=None).attribute(
        PROMPT, ANSWER, DOCUMENTS
    )
    assert places(whole) == [(25, 2, 1), (52, 3, 2)]
    *pending, last = parts
    assert len(pending) == 2 and last == whole
    for attribution in (*pending, scores):
        assert places(attribution) == places(whole)
        assert {marker.supported for marker in attribution.markers} == {None}
