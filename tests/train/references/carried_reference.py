"""Writes carried_reference.h: what PyTorch makes of recurrent networks whose hidden state is carried, detached, from window to window, in float64.

    python3 tests/train/references/carried_reference.py > tests/train/references/carried_reference.h

A text in three lanes of 24 units and windows of 4; two epochs, each of which begins with zeros. Embedding, recurrent layers, a dense layer over
the steps; Adam.
"""
import torch

LANES, LANE, WINDOW, SYMBOLS, UNITS = 3, 24, 4, 6, 5
torch.set_default_dtype(torch.float64)
letters = [(i * i + i // 7) % 5 for i in range(LANES * LANE + 1)]
# Numbers of a vocabulary: 0 is the unknown, then the most frequent first.
order = sorted(range(5), key=lambda letter: (-letters.count(letter), letter))
text = [order.index(letter) + 1 for letter in letters]


def values(shape, seed):
    n = 1
    for size in shape:
        n *= size
    return torch.tensor([((7 * i + 3 * seed) % 17 - 8) / 20 for i in range(n)]).reshape(shape)


def train(kind, layers):
    embedding = torch.nn.Embedding(SYMBOLS, 4)
    cell = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "rnn": torch.nn.RNN}[kind](4, UNITS, num_layers=layers, batch_first=True)
    head = torch.nn.Linear(UNITS, SYMBOLS)
    parameters = []
    for part in (embedding, cell, head):
        for name, value in part.named_parameters():
            if "bias_hh" in name:  # the first of two biases is enough, but for the candidate of a GRU, behind the reset gate
                value.data.zero_()
                if kind != "gru":
                    value.requires_grad_(False)
                    continue
                candidate = torch.cat([torch.zeros(2 * UNITS), torch.ones(UNITS)])
                value.register_hook(lambda gradient, candidate=candidate: gradient * candidate)
                parameters.append(value)
                continue
            value.data = values(value.shape, len(parameters) + 1)
            parameters.append(value)
    optimizer = torch.optim.Adam(parameters, lr=0.05)
    losses = []
    for _ in range(2):
        state = None
        for start in range(0, LANE, WINDOW):
            x = torch.tensor([[text[lane * LANE + start + t] for t in range(WINDOW)] for lane in range(LANES)])
            y = torch.tensor([[text[lane * LANE + start + t + 1] for t in range(WINDOW)] for lane in range(LANES)])
            out, state = cell(embedding(x), state)
            state = tuple(part.detach() for part in state) if kind == "lstm" else state.detach()
            loss = torch.nn.functional.cross_entropy(head(out).reshape(-1, SYMBOLS), y.reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


print("// Made by carried_reference.py, which says what this is.\n#pragma once\n\nnamespace perigee::carried_reference {\n")
print("struct Run {\n  const char* layer;\n  int layers;\n  double losses[12];\n};\n\ninline constexpr Run kRuns[] = {")
for kind, layers in (("lstm", 1), ("lstm", 2), ("gru", 1), ("rnn", 2)):
    print(f'    {{"{kind}", {layers}, {{' + ", ".join(repr(loss) for loss in train(kind, layers)) + "}},")
print("};\n\n}  // namespace perigee::carried_reference")
