"""Seconds and memory of a block of code, on a CPU or a GPU."""

from __future__ import annotations

import threading
import time

import psutil
import torch


class Stopwatch:
    """The block's `seconds`, and the `bytes` in use at its worst moment beyond those before it.

    Memory is sampled on a CPU. The device has finished its work when the time is taken.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._is_gpu = device.type == "cuda"
        self._process = psutil.Process()
        self._done = threading.Event()
        self.seconds = 0.0
        self.bytes = 0

    def __enter__(self) -> Stopwatch:
        if self._is_gpu:
            torch.cuda.synchronize(self._device)
            torch.cuda.reset_peak_memory_stats(self._device)
            self._before = torch.cuda.memory_allocated(self._device)
        else:
            self._before = self._process.memory_info().rss
            self._thread = threading.Thread(target=self._sample)
            self._thread.start()
        self._started = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_gpu:
            torch.cuda.synchronize(self._device)
        self.seconds = time.perf_counter() - self._started
        if self._is_gpu:
            self.bytes = torch.cuda.max_memory_allocated(self._device) - self._before
        else:
            self._done.set()
            self._thread.join()

    def _sample(self) -> None:
        while not self._done.wait(0.01):
            self.bytes = max(self.bytes, self._process.memory_info().rss - self._before)
