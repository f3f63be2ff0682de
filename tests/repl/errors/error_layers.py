"""Layers, transforms and schedules that do not fit their data, for error_cases.py."""

IMAGES = "pg.data.digits().train:take(20)"

# (layer before a dense layer, cause, fix): on images of 1 x 28 x 28.
LAYERS = [
    ("pg.conv2d { 4, kernel = 40 }", "is larger than its input", ("40", "4")),
    ("pg.conv2d { 4, kernel = { 1, 2, 3 } }", "an integer or 2 of them", ("{ 1, 2, 3 }", "{ 1, 2 }")),
    ("pg.conv2d { 4, kernel = 3, groups = 2 }", "the channels cannot be split into 2", ("groups = 2", "groups = 1")),
    ("pg.maxpool { 2, padding = 3 }", "padding", ("padding = 3", "padding = 1")),
    ("pg.cropping { 14 }", "nothing is left", ("14", "4")),
    ("pg.reshape { { 5, 5 } }", "the shape does not hold its input's features", ("{ 5, 5 }", "{ 28, 28 }")),
    ("pg.permute { { 1, 1, 2 } }", "must name each dimension once", ("{ 1, 1, 2 }", "{ 2, 1, 3 }")),
    ("pg.space_to_depth { 5 }", "the image cannot be cut into blocks of 5", ("5", "4")),
    ("pg.flatten {}, pg.maxpool { 2 }", "maxpool", ("pg.flatten {}, ", "")),
    ("pg.flatten {}, pg.spatial_dropout { 0.1 }", "needs channels and positions", ("pg.flatten {}, ", "")),
    ("pg.flatten {}, pg.global_pool {}", "needs channels and positions to pool over", ("pg.flatten {}, ", "")),
    ("pg.flatten {}, pg.upsampling { 2 }", "needs an image or a sequence", ("pg.flatten {}, ", "")),
    ("pg.residual { pg.conv2d { 4, kernel = 3 } }", "give shortcut a layer that makes them equal",
     ("kernel = 3 }", "kernel = 3 }, shortcut = pg.conv2d { 4, kernel = 3 }")),
    ("pg.embedding { size = 3, out = 4 }", "takes one index, or one list of them, for each example", None),
    ("pg.l2_normalize { axes = { 7 } }", "has a dimension that is not there", ("{ 7 }", "{ 1 }")),
    ('pg.dense { 4, weight_init = "xavir" }', "did you mean 'xavier'", ("xavir", "xavier")),
    ('pg.dense { 4, weight_init = "identity" }', "as many inputs as outputs", None),
    ("pg.lambda(function(x) return pg.sum(x, { 1 }) end)", "the function's result has lost the batch, dimension 0|lost", None),
    ('pg.lambda(function(x) return x * pg.parameter("w", { x.shape[1], 1, 1, 1 }) end)', "has the size of the batch, which changes",
     ("x.shape[1]", "1")),
    ('pg.dense { 4, name = "a", share = "w" }, pg.dense { 5, share = "w" }', "with a layer", ('5, share = "w"', "5")),
    ('pg.dense { 4, constraint = { type = "max_norm", dims = { 7 } } }', "names a dimension that", None),
]

# (transform, cause, fix)
TRANSFORMS = [
    ("pg.transform.crop { 40 }", "does not fit into the padded image", ("40", "20")),
    ("pg.transform.shift { 40 }", "0 to the size of the image", ("40", "4")),
    ("pg.transform.normalize { mean = { 1, 2 }, std = 1 }", "the values do not fit field 'x' of shape 1x28x28", ("{ 1, 2 }", "1")),
    ("pg.transform.normalize { mean = 0, std = 0 }", "must be positive", ("std = 0", "std = 1")),
    ('pg.transform.one_hot { field = "x" }', "is no class label", None),
    ('pg.transform.one_hot { 3, field = "y" }', "are fewer than the data have", ("3, ", "10, ")),
    ('pg.transform.standardize { field = "y" }', "is a class label: it has no scale", ('"y"', '"x"')),
    ('pg.transform.standardize { lengths = "x" }', "'lengths' does not fit the steps of field 'x'", None),
    ('pg.transform.flip { field = "z" }', "the data have no field 'z'", ('"z"', '"x"')),
    ('pg.transform.flip { "sideways" }', "has an unknown value", ("sideways", "vertical")),
]

# (learning rate, cause, fix)
RATES = [
    ('"fast"', "a number or schedule", ('"fast"', "0.1")),
    ("-1", "is out of range", ("-1", "0.1")),
    ("{}", "the kind of schedule", ("{}", '{ type = "cosine", from = 0.1 }')),
    ("pg.cosine {}", "'from' is missing", ("{}", "{ 0.1 }")),
    ("pg.schedule.map { values = {} }", "has no value to begin with", None),
    ("pg.schedule.sequence { parts = {} }", "until", None),
]
