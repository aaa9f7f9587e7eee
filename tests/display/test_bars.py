import pytest

from attribot_rag.display.bars import bar


@pytest.mark.parametrize(
    ("share", "drawn"),
    [
        (1.0, "████"),
        (0.5, "██"),
        (0.53, "██▏"),
        (0.001, "▏"),
        (0.0, ""),
        (-1.0, "░░░░"),
        (-0.001, "░"),
    ],
)
def test_bar(share: float, drawn: str) -> None:
    assert bar(share, 4) == drawn
