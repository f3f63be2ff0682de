-- Tensors from files and to files; the format follows from the name.
local native = require("perigee.native").tensor
local tensor = require "perigee.tensor"
local where = require "perigee.where"

local makers, Tensor, done = tensor.makers, tensor.type, tensor.done

---A file's content: .npy and .csv a tensor (f32 [rows, columns], then the header's names), .png and .jpg a tensor (u8 [channels, height,
---width]), .npz and .safetensors a table of tensors by name (then the metadata).
---@param path string
---@return perigee.Tensor|table<string, perigee.Tensor>, table?
function makers.load(path)
  if type(path) ~= "string" then where.fail("load takes the name of a file; got " .. tensor.describe(path)) end
  local named, names, metadata, header = native.read(path)
  if named == nil then where.fail(names) end
  local result = {}
  for place, name in ipairs(names) do
    local x = Tensor()
    done(native.read_result(place, x))
    if not named then
      if #header > 0 then return x, header end
      return x -- and nothing else, so that model(pg.load "x.npy") gives it one tensor
    end
    result[name] = x
  end
  return result, metadata
end

---A tensor to .npy, .csv or .png, a table of tensors by name to .npz or .safetensors. options: { metadata = { key = "text" } } of
---.safetensors, { header = { names } } of .csv.
---@param path string
---@param value perigee.Tensor|table<string, perigee.Tensor>
---@param options? { metadata?: table<string, string>, header?: string[] }
function makers.save(path, value, options)
  if type(path) ~= "string" then where.fail("save takes the name of a file and a tensor; got " .. tensor.describe(path)) end
  options = options or {}
  local names, tensors, keys, values = {}, {}, {}, {}
  if tensor.is(value) then
    names[1], tensors[1] = "", value
  elseif type(value) == "table" then
    for name in pairs(value) do
      if type(name) ~= "string" then where.fail(("save: tensors have names; got %s as a key"):format(where.describe(name))) end
      names[#names + 1] = name
    end
    table.sort(names)
    for place, name in ipairs(names) do
      if not tensor.is(value[name]) then where.fail(("save: '%s' is %s; expected a tensor"):format(name, tensor.describe(value[name]))) end
      tensors[place] = value[name]
    end
  else
    where.fail("save takes a tensor or a table of tensors; got " .. tensor.describe(value))
  end
  for key, text in pairs(options.metadata or {}) do keys[#keys + 1], values[#values + 1] = tostring(key), tostring(text) end
  done(native.write(path, not tensor.is(value), names, keys, values, options.header or {}, unpack(tensors)))
end

return tensor
