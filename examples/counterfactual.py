from attribot_rag import Attributor, load_model
from attribot_rag.display import visible

documents = [
    "The ferry Kittiwake carries up to 84 passengers. A single ticket costs 18 crowns.",
    "Fleet list of 1987. The ferry Kittiwake carries up to 40 passengers.",
    "The lighthouse is 38 metres high. Its lamp was lit for the first time in 1844.",
]
attributor = Attributor(load_model())
attribution = attributor.ask("How many passengers does the ferry Kittiwake carry?", documents)
print(visible(attribution.response))

for ranked in attribution.documents_by_effect():
    without = attributor.answer_without(attribution, ranked.index)
    answer = visible(without.response)
    print(f"{without.score:6.2f} nats  without {ranked.document.text[:20]!r}: {answer}")
