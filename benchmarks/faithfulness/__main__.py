"""For now: compute the truth."""
import sys
import time
from pathlib import Path

from attribot_rag import load_model
from attribot_rag.scoring import ScoringModels
from benchmarks.faithfulness.answers import answer
from benchmarks.faithfulness.examples import hotpotqa, squad
from benchmarks.faithfulness.truth import TruthStore

HP, SQ = Path(sys.argv[1]), Path(sys.argv[2])
lm = load_model()
models = ScoringModels(lm.model)
store = TruthStore(Path(__file__).parent / "truth" / "smollm2-135m.jsonl")
for example in [*squad(SQ, 40, 4), *hotpotqa(HP, 22), *squad(SQ, 10, 10)]:
    one = answer(example, lm)
    if one is None:
        print(example.key, "no answer"); continue
    t = time.time()
    truth = store.get(one, lm, models)
    print(example.key, truth.prompt_tokens, truth.response_tokens, len(truth.scores), len(one.sentence_tokens), round(time.time() - t, 1), repr(one.text[:150]), '| gold:', example.answers[0], '| top', sorted((round(sum(s),2) for s in truth.scores), reverse=True)[:4], flush=True)
