"""The gradient of a response's log-likelihood."""

from __future__ import annotations

import torch
from torch.func import functional_call
from transformers import PreTrainedModel

from attribot_rag.errors import UnsupportedModel
from attribot_rag.model.generation import Generation


def embedding_gradients(twin: PreTrainedModel, generation: Generation) -> torch.Tensor:
    """Gradients by the prompt's embeddings: float32 [num_prompt_tokens, hidden], on the CPU.

    Weights get no gradients, so the user's model stays as it is and only activations are kept.
    Raises UnsupportedModel for an encoder-decoder.
    """
    if twin.config.is_encoder_decoder:
        raise UnsupportedModel("gradients are not implemented for encoder-decoder models")
    prompt_ids, response_ids = generation.prompt_ids, generation.response_ids
    weights = {name: parameter.detach() for name, parameter in twin.named_parameters()}
    targets = torch.tensor(response_ids, device=twin.device)
    ids = torch.tensor([(*prompt_ids, *response_ids[:-1])], device=twin.device)
    with torch.enable_grad():
        embeddings = twin.get_input_embeddings()(ids).detach().requires_grad_()
        inputs = {"inputs_embeds": embeddings, "use_cache": False}
        logits = functional_call(twin, weights, kwargs=inputs, tie_weights=True).logits
        scored = logits[0, -len(response_ids) :].float()
        log_likelihood = scored.log_softmax(-1).gather(-1, targets[:, None]).sum()
        (gradients,) = torch.autograd.grad(log_likelihood, embeddings)
    return torch.as_tensor(gradients[0, : len(prompt_ids)]).float().cpu()
