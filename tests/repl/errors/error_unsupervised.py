"""What pg.variational and pg.boltzmann refuse."""
from error_forms import prompt

VAE = "net = pg.sequential { pg.vae { latent = 2, encoder = { pg.dense { 3 } }, decoder = { pg.dense { 4 } } } }:init(1, { 4 }) "
RBM = "net = pg.sequential { pg.rbm { 3 } }:init(1, { 4 }) "

CASES = [
    prompt("a variational model of no model", VAE + 'pg.variational("net")', "pg.variational takes a model, as pg.load_model reads it; got"),
    prompt("a variational model without a draw", "pg.variational(pg.sequential { pg.dense { 3 } }:init(1, { 4 }))",
           "pg.variational takes a model of layers in a row, one of them vae or gaussian_sample"),
    prompt("a variational model without a loss", "pg.variational(pg.sequential { pg.gaussian_sample {} }:init(1, { 4 }))",
           "with gaussian_sample the loss of the training is needed"),
    prompt("no draws of a code", VAE + "print(pg.variational(net):elbo(pg.ones(2, 4), { samples = 0 }))",
           "elbo: samples is a whole number from 1; got 0", "1", ("samples = 0", "samples = 1")),
    prompt("a machine of no model", RBM + 'pg.boltzmann("net")', "pg.boltzmann takes a model, as pg.load_model reads it; got"),
    prompt("a model without a machine", "pg.boltzmann(pg.sequential { pg.dense { 3 } }:init(1, { 4 }))", "the model has no layer rbm"),
    prompt("one machine of two", "net = pg.sequential { pg.rbm { 3 }, pg.rbm { 2 } }:init(1, { 4 }) print(pg.boltzmann(net).weight)",
           "the model has several layers rbm; name one: pg.boltzmann(model, \"rbm2\")", "", ("(net)", '(net, "rbm2")')),
    prompt("a machine of other units", "pg.boltzmann(pg.sequential { pg.rbm { 3, hidden_units = 'rectified' } }:init(1, { 4 }))",
           "pg.boltzmann is for binary units; layer 'rbm1' has binary and rectified ones"),
    prompt("annealing without chains", RBM + "print(pg.boltzmann(net):log_z { chains = 1 })", "log_z: chains is a whole number from 2; got 1", "2",
           ("chains = 1", "chains = 2")),
]
