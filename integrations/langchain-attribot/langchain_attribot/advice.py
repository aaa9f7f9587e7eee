"""Words of the log for what a reader would look for in vain."""

from __future__ import annotations

from langchain_attribot.documents import METADATA_KEY

NOTHING_SEEN = (
    "no documents were seen. Say what was retrieved, where it is: from langchain_attribot import "
    "retrieved; documents = retrieved(documents). Or name it with the call: "
    f"config={{'metadata': {{'{METADATA_KEY}': documents}}}}. A tool's artifacts and the documents "
    "of retrievers are seen in the chain that the handler is attached to; those of another "
    "invoke() count if they are named with this call, within `with attribute(llm)`, or for a "
    "handler with loose=True, which serves one request at a time"
)

WRONG_PLACE = (
    "AttributionCallbackHandler is attached to the model, where it sees no retriever; attach it to "
    "the chain, chain.with_config(callbacks=[handler]), or pass it per call"
)
