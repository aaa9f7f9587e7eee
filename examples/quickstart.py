"""The sentence that made the model say that: your own `generate`, recorded and attributed."""

from attribot_rag import Attributor, load_model
from attribot_rag.display import visible

documents = [
    "The ferry Kittiwake carries up to 84 passengers. A single ticket costs 18 crowns.",
    "The lighthouse is 38 metres high. Its lamp was lit for the first time in 1844.",
]
language_model = load_model()  # the embedded model; or load_model("path or Hugging Face id")

question = "Answer with one short sentence, using the passages above: how high is the lighthouse?"
messages = [{"role": "user", "content": "\n\n".join([*documents, question])}]

model, tokenizer = language_model.model, language_model.tokenizer
inputs = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt")
inputs = inputs.to(model.device)

attributor = Attributor(model, tokenizer)
with attributor.recorder:  # keeps the token ids and the KV cache of the generation
    output = model.generate(**inputs, max_new_tokens=40, do_sample=False)
answer = tokenizer.decode(output[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)

attribution = attributor.attribute(messages, answer, documents)
print(visible(attribution.response))
for ranked in attribution.top(2, *attribution.find("38 metres")):  # of these words alone
    print(f"{ranked.score:6.2f} nats  {visible(ranked.source.text)}")
