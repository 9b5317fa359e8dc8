"""Trains with one combination of hyper-parameters and writes its validation loss. It needs PyTorch; with TOY=1 it
computes a loss with its minimum at lr = 0.01 and width = 64, and needs only Python."""

import json
import math
import os
import pathlib

lr, width, seed = (os.environ["TRADEWIND_MATRIX_" + name] for name in ("LR", "WIDTH", "SEED"))
if os.environ.get("TOY"):
    loss = (math.log10(float(lr)) + 2) ** 2 + (math.log2(int(width)) - 6) ** 2 + int(seed) / 100
else:
    import torch

    torch.manual_seed(int(seed))
    x = torch.rand(65536, 32)
    y = torch.sin(x @ torch.rand(32, 1))
    model = torch.nn.Sequential(torch.nn.Linear(32, int(width)), torch.nn.ReLU(), torch.nn.Linear(int(width), 1))
    there = "cuda" if torch.cuda.is_available() else "cpu"
    model, x, y = model.to(there), x.to(there), y.to(there)
    step = torch.optim.Adam(model.parameters(), lr=float(lr))
    for _ in range(20000):
        step.zero_grad()
        error = torch.nn.functional.mse_loss(model(x[:60000]), y[:60000])
        error.backward()
        step.step()
    loss = torch.nn.functional.mse_loss(model(x[60000:]), y[60000:]).item()
found = {"lr": lr, "width": width, "seed": seed, "loss": loss}
pathlib.Path(os.environ["TRADEWIND_OUTPUT"], "result.json").write_text(json.dumps(found) + "\n")
print(found)
