"""Answers the prompts of one shard with vLLM. With TOY=1 it answers with the reversed prompt and needs only Python."""

import json
import os
import pathlib

SHARD = int(os.environ["TRADEWIND_ARRAY_INDEX"])
SHARDS = int(os.environ["TRADEWIND_ARRAY_SIZE"])
PROMPTS = pathlib.Path(os.environ["TRADEWIND_INPUTS"], "prompts", "prompts.jsonl")

rows = [json.loads(line) for n, line in enumerate(PROMPTS.open()) if n % SHARDS == SHARD]
if os.environ.get("TOY"):
    answers = [row["prompt"][::-1] for row in rows]
else:
    from vllm import LLM, SamplingParams

    llm = LLM(os.environ["MODEL"], max_model_len=4096)
    results = llm.generate([row["prompt"] for row in rows], SamplingParams(max_tokens=256, temperature=0))
    answers = [result.outputs[0].text for result in results]
with pathlib.Path(os.environ["TRADEWIND_OUTPUT"], "answers.jsonl").open("w") as out:
    for row, answer in zip(rows, answers):
        out.write(json.dumps({**row, "answer": answer}) + "\n")
print(f"shard {SHARD} of {SHARDS}: {len(rows)} answers")
