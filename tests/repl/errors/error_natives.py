"""Calls past the modules of Lua, for error_cases.py: what a script gets that calls perigee.native itself, which checks its arguments all the same."""

NATIVE = "native, p = require 'perigee.native', require('perigee.native').tensor "
NETWORK = NATIVE + "net = p.network(pg.sequential { pg.dense { 2 } }, { { name = 'x', dtype = 'f32', shape = native.list { 3 } } }, 1, 'network') "
RUN = NATIVE + "run = native.run.start('kept.lua', { script = 'kept.lua', folder = false }) "
ROWS = NATIVE + "s = p.open_source(pg.data.csv { 'two.csv' }) "

# (expression, cause, fix): as in error_prompts.py.
PROMPTS = [
    (NATIVE + "assert(p.result(99, pg.ones(1)))", "there is no such result; got 99", None),
    (NATIVE + "assert(p.read_result(99, pg.ones(1)))", "the file has no such array; got 99", None),
    (NATIVE + "assert(p.einsum('ij->ji', pg.ones(1), 3))", "a tensor is missing; got number, expected a tensor as argument 3", ("3)", "pg.ones(2, 2))")),
    (NATIVE + "assert(p.einsum('ij->ji', 3, pg.ones(2, 2)))", "there is no place for a result; got number, expected a tensor as argument 2",
     ("3,", "pg.ones(1),")),
    (NATIVE + "assert(p.value_type(p.recorder(), 99))", "there is no such recorded value; got 99", None),
    (NETWORK + "assert(p.network_parameter(net, 9, pg.ones(1)))", "the network has no such parameter; got 9, expected 1 to 2", ("9", "1")),
    (NETWORK + "assert(p.network_record(net, p.recorder(), {}, {}, true))", "the network takes another number of tensors; got 0, expected 1", None),
    (NETWORK + "r = p.recorder() a = p.argument(r, pg.ones(2, 3)) assert(p.network_record(net, r, { a }, { a, a, a }, true))",
     "these are not the network's parameters; got 3, expected 2", (", { a, a, a }", ", {}")),
    (RUN + "native.run.close(run) assert(native.run.names(run))", "run: it was closed; start another one with pg.start", ("native.run.close(run)", "")),
    (RUN + "assert(native.run.parameter(run, 'bias', pg.ones(1)))", "run.network: there is no parameter 'bias'", ("'bias'", "'dense1.bias'")),
    (ROWS + "assert(p.source_read(s, { 99 }, 0, 0, true, pg.ones(1), pg.ones(1)))", "there is no such example; got 99, expected 1 to 60", ("99", "9")),
    ("require('perigee.native').to_json({ a = {} }, unpack({}, 1, 7994))", "tables are nested too deep for so many arguments; give fewer arguments", ("7994", "4")),
    (NATIVE + "p.owner(error) print(pg.ones(100000))", "there is no memory for a tensor; drop tensors that are not used any more, then collectgarbage()", ("p.owner(error)", "")),
    ("pg.grad(function(x) return pg.grad(function(y, z) return (y * z):sum() end)(3, x) end)(pg.ones(2))",
     "grad: argument 1 has a number; gradients are with respect to tensors, such as pg.tensor(3)", ("(3, x)", "(pg.tensor(3), x)")),
    ("pg.ones(1, 1):expand(2^30, 1) + pg.ones(1, 1):expand(1, 2^30)", "a tensor of this shape is too large for any memory", ("2^30", "2")),
]
