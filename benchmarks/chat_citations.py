"""The time from the end of an answer to its citations, in the Gradio chat of the examples.

    python -m benchmarks.chat_citations [--threads 2] [--cold]

Asks about the example's corpus as the chat does, and waits for the last sentence. Prints for each
question the seconds by the clock and of the processor, which other work on the machine moves less;
divided by the threads, these are what an idle machine takes at least. `--cold` leaves out the
attribution that the chat makes while its page loads. The first question is a process's first.
"""

from __future__ import annotations

import argparse
import os
import runpy
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.chat_prompts import QUESTIONS
from benchmarks.experiment.setting import hardware

CHAT = Path(__file__).parents[1] / "examples" / "gradio_chat.py"


def measure(chat: dict[str, Any], question: str) -> tuple[float, float, int]:
    """Seconds by the clock and of the processor, and the sentences of the answer."""
    turn = chat["Turn"](question)
    for piece in chat["answer"](turn, []):
        turn.answer += piece
    clock, processor = time.perf_counter(), time.process_time()
    *_, data = chat["data_of"](turn)
    seconds = time.perf_counter() - clock, time.process_time() - processor
    return *seconds, len(data["summary"]["sentences"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cold", action="store_true", help="without the chat's first attribution")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CHAT_STORE"] = folder
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        sys.path.insert(0, str(CHAT.parent))
        chat = runpy.run_path(str(CHAT), run_name="chat")
        torch.set_num_threads(options.threads)
        chat["kept"].read_folder(chat["insert"])
        if not options.cold:
            chat["warm_up"]()
        print(f"{hardware()}, {options.threads} threads, load {os.getloadavg()[0]:.1f}")
        print("seconds by the clock, of the processor, sentences")
        measured = []
        for question in QUESTIONS["island"]:
            measured.append(row := measure(chat, question))
            print(f"{row[0]:6.2f} {row[1]:6.2f} {row[2]:3}  {question}", flush=True)
    first, *later = measured
    one = [row for row in later if row[2] == 1]
    print(f"first: {first[0]:.2f} s by the clock, {first[1]:.2f} s of the processor")
    for name, rows in (("later", later), ("later, of one sentence", one)):
        clock, processor = (statistics.median(row[place] for row in rows) for place in (0, 1))
        print(f"{name}: {clock:.2f} s by the clock, {processor:.2f} s of the processor (medians)")


if __name__ == "__main__":
    main()
