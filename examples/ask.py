from attribot_rag import Attributor, load_model
from attribot_rag.display import visible

documents = [
    "The ferry Kittiwake carries up to 84 passengers. A single ticket costs 18 crowns.",
    "The lighthouse is 38 metres high. Its lamp was lit for the first time in 1844.",
]
language_model = load_model()  # the embedded model; or load_model("path or Hugging Face id")
attribution = Attributor(language_model).ask("How high is the lighthouse?", documents)
print(visible(attribution.response))
for ranked in attribution.top(3):
    print(f"{ranked.score:6.2f} nats  {visible(ranked.source.text)}")
