-- A folder of pictures: one folder of JPEG files for each class, as it comes out of its archive. Each epoch sees another part of every picture,
-- mirrored and with other colours; the test sees whole pictures.
local pg = require "perigee"

-- The archive holds cifar10_jpeg/train/CLASS/*.jpg, a hundred of each class, and cifar10_jpeg/test/CLASS/*.jpg. It is unpacked once.
-- For pictures of your own, leave this out and write: local photos = "my/folder".
local cache = (os.getenv "XDG_CACHE_HOME" or (os.getenv "HOME" or "/tmp") .. "/.cache") .. "/perigee"
local photos = cache .. "/cifar10_jpeg"
if not io.open(photos .. "/test/truck/0029.jpg") then
  local archive = pg.data_path "cifar10/cifar10_jpeg_subset.tar.gz"
  os.execute(("mkdir -p '%s' && tar xzf '%s' -C '%s'"):format(cache, archive, cache))
end

-- fit = "random" draws a part of the picture and decodes as much of the file as it needs (torchvision's RandomResizedCrop).
local train = pg.data.images { photos .. "/train", size = 32, fit = "random", area = { 0.4, 1 } }
local test = pg.data.images { photos .. "/test", size = 32, fit = "crop" }

local augment = {
  pg.transform.flip {},
  pg.transform.colour { brightness = 0.3, contrast = 0.3, saturation = 0.3, hue = 0.05, order = "random", top = 1 },
  pg.transform.rand_augment { operations = 1, magnitude = 6 },
  pg.transform.erase { probability = 0.25, fill = 0.5 },
}
local normalize = pg.transform.normalize { mean = { 0.4914, 0.4822, 0.4465 }, std = { 0.2470, 0.2435, 0.2616 } }

local function conv(channels)
  return pg.conv2d { channels, kernel = 3, padding = 1, bias = false }, pg.batchnorm { activation = "relu" }
end
local c1, b1 = conv(32)
local c2, b2 = conv(64)
local c3, b3 = conv(128)

augment[#augment + 1] = normalize
return pg.experiment {
  name = "photos",
  network = pg.sequential {
    c1, b1, pg.maxpool { 2 }, c2, b2, pg.maxpool { 2 }, c3, b3,
    pg.global_pool { "average" }, pg.dense { 10 },
  },
  loss = "cross_entropy",
  optimizer = pg.adamw { lr = pg.one_cycle { max = 3e-3 } },
  data = { train = train:map(augment), test = test:map { normalize }, batch = 50 },
  epochs = 30, seed = 1,
}
