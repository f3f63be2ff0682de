-- Where in the user's script we were called from, and errors that say so.
local native = require "perigee.native"

local where = {}

---"lenet.lua:7": the innermost frame that is not one of our own modules (their chunk names begin with "=").
---@return string?
function where.position()
  for level = 2, 200 do
    local info = debug.getinfo(level, "Sl")
    if not info then return nil end
    if info.source:sub(1, 1) == "@" and info.currentline > 0 then
      return info.source:sub(2) .. ":" .. info.currentline
    end
  end
end

---"lenet.lua:7": where a function of the user's begins; nil for one of ours.
---@param f function
---@return string?
function where.definition(f)
  local info = debug.getinfo(f, "S")
  return info.source:sub(1, 1) == "@" and info.linedefined > 0 and info.source:sub(2) .. ":" .. info.linedefined or nil
end

---As position(), for what a script ends with: `return pg.experiment { ... }` is a tail call and leaves no frame, so the line is
---looked up in the text: that of the option `key`, or of the call itself.
---@param call string
---@param key? string
---@return string?
function where.position_of_result(call, key)
  local name, text = native.script()
  local here = where.position()
  if here or not name then return here end
  local line, found, keyed = 0, nil, nil
  for content in (text .. "\n"):gmatch "(.-)\n" do
    line = line + 1
    if content:find(call, 1, true) then found, keyed = line, nil end
    if found and not keyed and key and content:find("%f[%w_]" .. key .. "%s*=") then keyed = line end
  end
  return name .. (found and ":" .. (keyed or found) or "")
end

---Raises `text` at the user's line.
---@param text string
---@param position? string
function where.fail(text, position)
  position = position or where.position()
  error(position and position .. ": " .. text or text, 0)
end

---"; did you mean 'kernel'?", or the known names when none is near and they are few.
---@param name any
---@param known string[]
---@return string
function where.suggestion(name, known)
  local hint = native.nearest(tostring(name), known)
  if hint ~= "" then return "; " .. hint end
  table.sort(known)
  if #known == 0 then return "" end
  if #known <= 24 then return "; known: " .. table.concat(known, ", ") end
  return ""
end

---"a number", "a conv2d layer": for messages.
---@param value any
---@return string
function where.describe(value)
  if type(value) == "string" then return "'" .. value .. "'" end
  if type(value) == "number" or type(value) == "boolean" then return tostring(value) end
  if type(value) == "table" and type(rawget(value, "type")) == "string" then return "a '" .. value.type .. "'" end
  if value == nil then return "nothing" end
  return "a " .. type(value)
end

---A table of named things that fails with the nearest known name when asked for another.
---@param what string
---@param members table
---@return table
function where.namespace(what, members)
  return setmetatable(members, {
    __index = function(_, name)
      local known = {}
      for key in pairs(members) do known[#known + 1] = key end
      where.fail(("there is no %s '%s'%s"):format(what, tostring(name), where.suggestion(name, known)))
    end,
  })
end

local originals = setmetatable({}, { __mode = "k" }) -- by the function that stands for it

---The function that a method was before where.methods: for help, which reads its parameters and the comment above it.
---@param f function
---@return function
function where.original(f) return originals[f] or f end

---Makes the methods of a class say so when they are called with a dot, which gives them no object: run.stop().
---@param variable string what an object is called in messages: "run"
---@param methods table
---@param is_self fun(value: any): any
function where.methods(variable, methods, is_self)
  for name, method in pairs(methods) do
    if type(method) == "function" and name:sub(1, 2) ~= "__" then
      local function checked(self, ...)
        if not is_self(self) then
          where.fail(("%s.%s is a method, and got %s in the place of its object; call it with a colon: %s:%s(...)"):format(variable, name,
            where.describe(self), variable, name))
        end
        return method(self, ...)
      end
      originals[checked], methods[name] = method, checked
    end
  end
end

return where
