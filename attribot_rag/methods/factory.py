"""Methods by name, alone or combined by the options `proxy` and `keep`."""

from __future__ import annotations

from collections.abc import Callable

from attribot_rag.errors import InvalidInput
from attribot_rag.methods.auto import Auto
from attribot_rag.methods.base import Method
from attribot_rag.methods.hierarchical import Hierarchical, Pruned
from attribot_rag.methods.leave_one_out import LeaveOneOut, Masked
from attribot_rag.methods.patching import Patching
from attribot_rag.methods.proxy import Proxy
from attribot_rag.methods.thorough import Thorough
from attribot_rag.model.language_model import LanguageModel

METHODS: dict[str, Callable[[], Method]] = {
    "auto": Auto,
    "thorough": Thorough,
    "leave_one_out": LeaveOneOut,
    "hierarchical": Hierarchical,
    "masked": Masked,
    "patching": Patching,
    "masked_hierarchical": lambda: Hierarchical(coarse=Masked(), fine=Masked(), shorten=False),
}


def make_method(
    method: str | Method, proxy: LanguageModel | None = None, keep: int | float | None = None
) -> Method:
    """The method of this name, or the given method itself.

    With a `proxy`, 'auto' ranks the sources on it where this takes fewer FLOPs; any other method
    runs on the proxy. With `keep` too, the proxy keeps so many sources (a number, or a fraction)
    and the target scores them by the method: proxy pruning. Raises InvalidInput for an unknown
    name, or `keep` without a proxy.
    """
    if isinstance(method, str):
        if method not in METHODS:
            raise InvalidInput(f"unknown method {method!r}; choose one of {', '.join(METHODS)}")
        method = METHODS[method]()
    is_method = all(callable(getattr(method, name, None)) for name in ("run", "cost"))
    if isinstance(method, type) or not is_method:
        raise InvalidInput(
            f"method={method!r}; pass a name, or an object with `run` and `cost` such as "
            "LeaveOneOut()"
        )
    if keep is not None and proxy is None:
        raise InvalidInput(f"keep={keep!r} is for a proxy; pass proxy=, or set it in the method")
    if proxy is None:
        return method
    with_proxy: Callable[..., Method] | None = getattr(method, "with_proxy", None)
    if with_proxy is not None:
        return with_proxy(proxy, keep)
    return Proxy(proxy, method) if keep is None else Pruned(Proxy(proxy), keep=keep, then=method)
