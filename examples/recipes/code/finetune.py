"""Fine-tunes a language model with LoRA, on one GPU or, started by torchrun, on many. It saves every few minutes and
resumes from there. With TOY=1 it fits a straight line instead and needs only Python: the same files, no learning."""

import json
import os
import pathlib
import time

OUT = pathlib.Path(os.environ["TRADEWIND_OUTPUT"])
SAVED = pathlib.Path(os.environ["TRADEWIND_CHECKPOINT"])
RANK = int(os.environ.get("RANK", "0"))


def real() -> None:
    import torch
    from datasets import load_dataset
    from peft import LoraConfig, get_peft_model
    from transformers import (AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling, Trainer,
                              TrainingArguments)
    from transformers.trainer_utils import get_last_checkpoint

    name = os.environ["MODEL"]
    tokens = AutoTokenizer.from_pretrained(name)
    tokens.pad_token = tokens.pad_token or tokens.eos_token
    model = AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.bfloat16)
    model = get_peft_model(model, LoraConfig(r=16, target_modules="all-linear", task_type="CAUSAL_LM"))
    data = load_dataset(os.environ["DATASET"], split="train")
    data = data.map(lambda row: tokens(row["text"], truncation=True, max_length=1024),
                    remove_columns=data.column_names)
    trainer = Trainer(
        model,
        TrainingArguments(output_dir=str(SAVED), num_train_epochs=1, per_device_train_batch_size=4,
                          gradient_accumulation_steps=4, learning_rate=2e-4, bf16=True, save_steps=100,
                          save_total_limit=1, logging_steps=10, report_to=[]),
        train_dataset=data,
        data_collator=DataCollatorForLanguageModeling(tokens, mlm=False),
    )
    trainer.train(resume_from_checkpoint=get_last_checkpoint(str(SAVED)))
    if trainer.is_world_process_zero():
        model.save_pretrained(OUT / "adapter")


def toy() -> None:
    state = {"step": 0, "w": 0.0}
    saved = SAVED / "state.json"
    if saved.exists():
        state = json.loads(saved.read_text())
        print(f"resumed at step {state['step']}", flush=True)
    while state["step"] < 100:
        state["w"] -= 0.1 * 2 * (state["w"] - 3)  # the minimum of (w - 3)^2
        state["step"] += 1
        new = saved.with_suffix(".new")
        new.write_text(json.dumps(state))
        new.replace(saved)  # always complete
        time.sleep(0.01)
    if RANK == 0:
        (OUT / "adapter").mkdir(exist_ok=True)
        (OUT / "adapter" / "adapter.json").write_text(json.dumps(state))
    print(f"rank {RANK}: toy, w = {state['w']:.3f} after {state['step']} steps")
    assert abs(state["w"] - 3) < 1e-3


SAVED.mkdir(exist_ok=True, parents=True)
toy() if os.environ.get("TOY") else real()
