"""Options of how a job trains, for error_cases.py."""

import error_sequences

NUMBERS = "pg.data.arrays { x = { { 1, 2 }, { 3, 4 } }, y = { 0, 1 }, n = { 5, 6 } }"

# (place, cause, fix, hint, parts of the script): one mistake in the job.
JOBS = [
    ("trial.lua:", "and 'ema' are two averages of the same weights", (", swa = {}", ""), "expected one of them", {"more": "ema = {}, swa = {},"}),
    ("trial.lua:", "comes after the last epoch; got 3", ("from_epoch = 3", "from_epoch = 1"), "at most 1", {"more": "swa = { from_epoch = 3 },"}),
    ("trial.lua:", "is the last quarter of the epochs by default", ("swa = {}", "swa = { from_epoch = 10 }"), "for example from_epoch = 10",
     {"more": "swa = {}, steps = 4, epochs = nil,"}),
    ("trial.lua:", "takes several batches of streams at once", ("accumulate = 2", "accumulate = 1"), "1 with data of 'streams'", {"more": "accumulate = 2,", **error_sequences.SHARED_STREAM}),
    ("trial.lua:", "and 'weights' both say how much a class counts", (", weights = { 1, 2 }", ""), "expected one of them",
     {"loss": 'pg.loss.cross_entropy { class_weight = "balanced", weights = { 1, 2 } }'}),
    ("trial.lua:", "needs a label of each example before training begins", ('class_weight = "balanced"', "weights = { 1, 2 }"), "weights = { 1, 2 }",
     {"loss": 'pg.loss.cross_entropy { class_weight = "balanced" }', "train": f"{NUMBERS}:mixup()"}),
    ("arrays (2 examples)", "field 'y' does not fit the model", ("}, batch = 10", "}:map { pg.transform.one_hot {} }, batch = 10"), "source:map { pg.transform.one_hot {} }",
     {"train": f"{NUMBERS}:mixup(), test = {NUMBERS}"}),
    # A figure of one's own is tried before there is a run folder.
    ("trial.lua:", "'add': shapes do not fit together; got 2x2 and 3", ("{ 1, 2, 3 }", "{ 1, 2 }"), "",
     {"train": f"{NUMBERS}, test = {NUMBERS}", "more": "metrics = { near = function(outputs, targets) return (outputs + pg.tensor { 1, 2, 3 }):sum(2) end },"}),
    ("arrays (2 examples)", "field 'y' does not fit the model; got f32[2], expected i64[]", (":map { pg.transform.one_hot {} }", ""),
     "leave pg.transform.one_hot out of this one, or give it to both", {"train": f"{NUMBERS}, test = {NUMBERS}:map {{ pg.transform.one_hot {{}} }}"}),
    ("trial.lua:", "is no image", ("cutmix", "mixup"), "mix it with mixup", {"train": f"{NUMBERS}:cutmix {{}}"}),
    ("trial.lua:", "has numbers that cannot be mixed", (', field = "y"', ""), "f32, of examples", {"train": f'{NUMBERS}:mixup {{ alpha = 1, field = "y" }}'}),
    ("trial.lua:", "is no label", (', field = "n"', ""), "a field with the number of a class", {"train": f'{NUMBERS}:balanced {{ size = 4, field = "n" }}'}),
]
