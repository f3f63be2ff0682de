-- pg.scan: a loop over the steps of sequences. In a traced function it is one op whose body is a program of its own, so that what is recorded does
-- not grow with the number of steps; on tensors the steps run one after the other.
local tensor = require "perigee.tensor"
local trace = require "perigee.trace"
local where = require "perigee.where"

local function is_array(value) return tensor.is(value) or tensor.is_symbol(value) end
local function is_value(value) return is_array(value) or trace.is_traced(value) or type(value) == "number" end

-- A value stands for a list of one: { values, whether it was a list }.
local function list_of(what, given)
  if given == nil then return {}, true end
  if is_value(given) then return { given }, false end
  if type(given) ~= "table" then where.fail(("scan: %s is %s; expected a value or a list of them"):format(what, where.describe(given))) end
  for place, value in ipairs(given) do
    if not is_value(value) then where.fail(("scan: %s %d is %s; expected a value"):format(what, place, where.describe(value))) end
  end
  return given, true
end

local function one_or_list(values, is_list)
  if is_list then return values end
  return values[1]
end

local known = { reverse = "boolean", recompute = "number or false", length = "number", mask = "value" }

local function check_options(options)
  for key, value in pairs(options) do
    local kind = known[key]
    if not kind then
      where.fail(("scan has no option '%s'%s"):format(tostring(key), where.suggestion(tostring(key), { "reverse", "recompute", "length", "mask" })))
    end
    if kind == "number or false" then kind = value == false and "boolean" or "number" end
    local fits = kind == "value" and (is_array(value) or trace.is_traced(value)) or type(value) == kind
    if kind == "number" then fits = fits and value >= 0 and value % 1 == 0 end
    if not fits then
      where.fail(("scan: %s is %s; expected %s"):format(key, where.describe(value),
        kind == "value" and "a value of each step of each example" or kind == "number" and "a whole number" or "true or false"))
    end
  end
end

-- f as a function of two lists that gives two.
local function step_of(f, carry_is_list, steps_are_list, carries, none)
  local results_are_list
  local function step(carried, parts)
    local next_carry, result = f(one_or_list(carried, carry_is_list), not none and one_or_list(parts, steps_are_list) or nil)
    local next_list, is_list = list_of("what the step carries on", next_carry)
    if #next_list ~= carries or is_list ~= carry_is_list and carries > 0 then
      where.fail(("scan: the step carries on %s; expected what it was given: %s"):format(where.describe(next_carry),
        carry_is_list and ("a list of %d values"):format(carries) or "one value"))
    end
    local result_list
    result_list, results_are_list = list_of("the step's result", result)
    return next_list, result_list
  end
  return step, function(values)
    if results_are_list and #values == 0 then return nil end
    return one_or_list(values, results_are_list)
  end
end

local function in_trace(step, carries, steps, options)
  local body, results = trace.body(step, #carries, #steps)
  local operands = {}
  for _, list in ipairs { carries, steps } do
    for _, value in ipairs(list) do table.insert(operands, value) end
  end
  if options.mask then table.insert(operands, options.mask) end
  local made = trace.loop(operands, results, {
    carries = #carries, reverse = options.reverse or nil, recompute = options.recompute or nil, length = options.length,
    keep = options.recompute == false or nil,
    mask = options.mask and true or nil, body = body,
  })
  return { unpack(made, 1, #carries) }, { unpack(made, #carries + 1) }
end

-- The mask of a step in the rank of a value: [N] as [N, 1, ...].
local function spread(mask, value)
  local shape = { mask.shape[1] }
  for axis = 2, value.rank do shape[axis] = 1 end
  return mask:reshape(shape)
end

local function on_tensors(step, carries, steps, options)
  local length = options.length
  for place, sequence in ipairs(steps) do
    if not is_array(sequence) or sequence.rank < 2 then
      where.fail(("scan: sequence %d is %s; expected a tensor (examples, ..., steps)"):format(place, where.describe(sequence)))
    end
    local steps_of_it = sequence.shape[sequence.rank]
    length = length or steps_of_it
    if steps_of_it ~= length then where.fail(("scan: sequence %d has %d steps; expected %d"):format(place, steps_of_it, length)) end
  end
  if not length or length < 1 then where.fail "scan: there is no step; give a sequence, or length = 10" end
  local results, carried = {}, carries
  for count = 1, length do
    local t, parts = options.reverse and length + 1 - count or count, {}
    for place, sequence in ipairs(steps) do parts[place] = sequence:narrow(-1, t, 1):squeeze(-1) end
    local before = carried
    local after, made = step(before, parts)
    if options.mask then
      local counts = options.mask:narrow(2, t, 1):squeeze(2):ne(0)
      for place, value in ipairs(after) do after[place] = tensor.methods.where(spread(counts, value), value, before[place]) end
      for place, value in ipairs(made) do made[place] = tensor.methods.where(spread(counts, value), value, 0) end
    end
    for place, value in ipairs(made) do
      results[place] = results[place] or {}
      results[place][t] = value
    end
    carried = after
  end
  for place, list in ipairs(results) do results[place] = tensor.methods.stack(list, -1) end
  return carried, results
end

local scan = {}

---A loop over the steps of sequences: the function gets what is carried and the steps' parts, and gives what is carried on and a result.
---`last, results = pg.scan(function(h, x) h = pg.tanh(x:matmul(w) + h:matmul(u)); return h, h end, h0, xs)`. Sequences are (examples, ...,
---steps), their parts (examples, ...); a list of values stands wherever one does. In pg.lambda and losses it is one op, however many steps there
---are. Options: reverse; mask, a value (examples, steps) that is 0 where a step does not count; length, where there is no sequence; recompute = 16
---keeps each 16th carried value for the gradient alone, recompute = false all that the gradient reads: faster, with more memory. Random numbers
---that a step draws for each example are drawn for all steps at once, so that a step that is computed again has the same ones.
---@param f function
---@param carry any
---@param steps any
---@param options? { reverse?: boolean, mask?: any, length?: integer, recompute?: integer|false }
---@return any, any
function scan.scan(f, carry, steps, options)
  if type(f) ~= "function" then where.fail(("scan takes a function of one step; got %s"):format(where.describe(f))) end
  options = options or {}
  check_options(options)
  local carries, carry_is_list = list_of("what is carried", carry)
  local sequences, steps_are_list = list_of("the sequence", steps)
  local step, results_of = step_of(f, carry_is_list, steps_are_list, #carries, steps == nil)
  local run = trace.current() and in_trace or on_tensors
  local last, results = run(step, carries, sequences, options)
  return one_or_list(last, carry_is_list), results_of(results)
end

return scan
