-- model:session(): a sequence that a network reads piece by piece.
local core = require("perigee.native").tensor
local tensor = require "perigee.tensor"
local where = require "perigee.where"

local session = {}

local done, is_tensor, describe = tensor.done, tensor.is, tensor.describe
local handles = setmetatable({}, { __mode = "k" })

---@class perigee.Session
local Session = {}
Session.__index = Session
Session.__fields = Session

function Session:__tostring()
  return "a session that carries " .. table.concat(done(core.session_names(handles[self])), ", ")
end

---Reads the next steps of the sequence and returns the model's outputs of them: x is what model(x) takes, with any number of steps as the last
---dimension. A sequence in pieces gives what it gives at once.
---@param x perigee.Tensor
---@return perigee.Tensor
function Session:step(x)
  if not is_tensor(x) then where.fail("session:step takes a tensor of [rows, ..., steps]; got " .. describe(x)) end
  local y = tensor.type()
  done(core.session_step(handles[self], x, y))
  return y
end

---Gives a network with several inputs what its steps look at, such as the text that is translated, by the inputs' names. An encoder reads it once.
---The next step is the first. Returns the session.
---@param memory table<string, perigee.Tensor>
---@return perigee.Session
function Session:remember(memory)
  if type(memory) ~= "table" then where.fail("session:remember takes a table of tensors by name; got " .. describe(memory)) end
  local names, known = done(core.session_memory(handles[self])), {}
  for _, name in ipairs(names) do known[name] = true end
  for name in pairs(memory) do
    if not known[name] then
      where.fail(("session:remember: the network has no memory '%s'%s"):format(tostring(name), where.suggestion(tostring(name), names)))
    end
  end
  for number, name in ipairs(names) do
    if not is_tensor(memory[name]) then where.fail(("session:remember: '%s' is %s; expected a tensor"):format(name, describe(memory[name]))) end
    done(core.session_remember(handles[self], number, memory[name]))
  end
  return self
end

---The next step is the first of a sequence again. Returns the session.
---@return perigee.Session
function Session:clear()
  done(core.session_clear(handles[self]))
  return self
end

---A copy of what the session carries: tensors by name, which set_state takes.
---@return table<string, perigee.Tensor>
function Session:state()
  local state = {}
  for number, name in ipairs(done(core.session_names(handles[self]))) do
    state[name] = tensor.type()
    done(core.session_state(handles[self], number, state[name]))
  end
  return state
end

---Goes on from another state, such as that of another session of the same model. Returns the session.
---@param state table<string, perigee.Tensor>
---@return perigee.Session
function Session:set_state(state)
  if type(state) ~= "table" then where.fail("set_state takes a table of tensors by name, as state() gives it; got " .. describe(state)) end
  for number, name in ipairs(done(core.session_names(handles[self]))) do
    if not is_tensor(state[name]) then
      where.fail(("set_state: '%s' is %s; expected a tensor; state() gives a table of all"):format(name, describe(state[name])))
    end
    done(core.session_set_state(handles[self], number, state[name]))
  end
  return self
end

where.methods("session", Session, function(value) return handles[value] ~= nil end)

---@return perigee.Session
function session.open(network, rows)
  if rows ~= nil and type(rows) ~= "number" then where.fail("session takes the number of sequences side by side; got " .. describe(rows)) end
  local handle, message = core.network_session(network, rows or 1)
  if handle == nil then where.fail(message) end
  local made = setmetatable({}, Session)
  handles[made] = handle
  return made
end

return session
