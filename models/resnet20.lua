-- ResNet-20 on CIFAR-10 (He et al. 2016): three stages of three residual blocks with 16, 32 and 64 channels. A Lua script is a
-- program, so the network is built by loops and functions.
local pg = require "perigee"
local cifar = pg.data.cifar10()

-- The published means and deviations of the training images, channel by channel.
local normalize = pg.transform.normalize { mean = { 0.4914, 0.4822, 0.4465 }, std = { 0.2470, 0.2435, 0.2616 } }

-- A convolution and batch normalisation; it has no bias, because the normalisation would remove it.
local function conv(channels, stride, activation)
  return pg.sequential {
    pg.conv2d { channels, kernel = 3, stride = stride, padding = 1, bias = false },
    pg.batchnorm { activation = activation },
  }
end

-- relu(conv(conv(x)) + x); where the shape changes, a 1x1 convolution adapts x.
local function block(channels, stride)
  local shortcut
  if stride > 1 then
    shortcut = { pg.conv2d { channels, kernel = 1, stride = stride, bias = false }, pg.batchnorm {} }
  end
  return pg.residual { conv(channels, stride, "relu"), conv(channels, 1), shortcut = shortcut, activation = "relu" }
end

local layers = { conv(16, 1, "relu") }
for stage, channels in ipairs { 16, 32, 64 } do
  for index = 1, 3 do
    layers[#layers + 1] = block(channels, stage > 1 and index == 1 and 2 or 1)
  end
end
layers[#layers + 1] = pg.global_pool { "average" }
layers[#layers + 1] = pg.dense { 10 }

return pg.experiment {
  name = "resnet20-cifar10",
  network = pg.sequential(layers),
  loss = "cross_entropy",
  optimizer = pg.nesterov { lr = pg.one_cycle { max = 0.1 }, momentum = 0.9 },
  regularization = { l2 = 5e-4 },
  data = {
    -- Each epoch shifts each image by up to four pixels and mirrors half of the images.
    train = cifar.train:map { normalize, pg.transform.crop { pad = 4 }, pg.transform.flip {} },
    test = cifar.test:map { normalize },
    batch = 64,
  },
  epochs = 10, seed = 123,
}
