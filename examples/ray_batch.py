from pathlib import Path

import ray

from attribot_batch import Statistics
from attribot_batch.distributed import attribute_dataset
from attribot_batch.tables import results_in
from attribot_rag import Attributor, load_model

OUTPUT = Path("batch/ray").resolve()


def make_attributor() -> Attributor:
    return Attributor(load_model(), progress=False)


if __name__ == "__main__":
    ray.init(num_cpus=3, include_dashboard=False)  # on a cluster: ray.init()
    records = ray.data.read_text("examples/answers.jsonl")
    outcomes = attribute_dataset(records, make_attributor, concurrency=2, batch_size=2)
    outcomes.write_parquet(str(OUTPUT), mode="overwrite", min_rows_per_file=1000)
    rows = ray.data.read_parquet(str(OUTPUT)).iter_rows()
    print(Statistics.of(results_in(rows)).to_text(), end="")
