local pg = require "perigee"

local tests = {}

local function names(list)
  local set = {}
  for _, entry in ipairs(list) do set[#set + 1] = entry.op end
  return set
end

function tests.custom_traces_its_outer_step()
  local policy = pg.averaging.custom {
    every = 16,
    state = { velocity = 0 },
    outer = function(p)
      p.velocity = p.momentum * p.velocity + (p.mean - p.global)
      return p.global + p.rate * p.velocity
    end,
    momentum = 0.9, rate = 0.7,
  }
  check.equal(policy, {
    type = "custom", every = 16, state = { velocity = 0 }, momentum = 0.9, rate = 0.7,
    outer = {
      program = pg.list {
        { op = "mul", ["in"] = pg.list { "momentum", "velocity" }, out = "t1" },
        { op = "sub", ["in"] = pg.list { "mean", "global" }, out = "t2" },
        { op = "add", ["in"] = pg.list { "t1", "t2" }, out = "t3" },
        { op = "mul", ["in"] = pg.list { "rate", "t3" }, out = "t4" },
        { op = "add", ["in"] = pg.list { "global", "t4" }, out = "t5" },
      },
      outputs = { global = "t5", velocity = "t3" },
    },
  })
end

function tests.numbers_may_follow_the_round()
  local policy = pg.averaging.bmuf { 50, momentum = function(p) return 0.9 * p.progress end }
  check.equal(policy.every, 50)
  check.equal(policy.momentum.outputs, { value = "t1" })
  check.equal(policy.momentum.program[1]["in"], { 0.9, "progress" })
  policy = pg.averaging.custom { every = 2, rate = function(p) return 1 / p.workers end,
    outer = function(p) return p.mean + p.rate * p.delta end }
  check.equal(names(policy.rate.program), { "div" })
end

function tests.a_state_may_be_set_to_a_number()
  local policy = pg.averaging.custom { state = { last = 1 }, outer = function(p) p.last = 0 return p.mean end }
  check.equal(names(policy.outer.program), { "add" })
end

function tests.comparisons_choose()
  local policy = pg.averaging.custom { limit = 0.1, outer = function(p)
    return p.global - pg.where(p.delta:abs():lt(p.limit), p.delta, p.limit * p.delta:sign())
  end }
  check.equal(names(policy.outer.program), { "abs", "less", "sign", "mul", "where", "sub" })
end

-- No tail calls: they leave no frame whose line could be told.
local function fails(options, pattern, name)
  check.raises(function()
    local policy = pg.averaging[name or "custom"](options)
    return policy
  end, pattern)
end

function tests.mistakes_are_told_at_the_scripts_line()
  fails({ state = { velocity = 0 }, outer = function(p) return p.velocty end },
    "averaging_test.lua:%d+: .*'velocty'.*did you mean 'velocity'")
  fails({ state = { velocity = 0 }, outer = function(p) p.velocty = p.mean return p.mean end },
    "averaging_test.lua:%d+: 'velocty' cannot be assigned")
  fails({ outer = function(p) p.global = p.mean return p.mean end }, "'global' cannot be assigned")
  fails({ outer = function(p) if p.mean == 0 then return p.mean end return p.global end }, "averaging_test.lua:%d+: .*x:eq%(y%)")
  fails({ outer = function(p) if p.mean < p.global then return p.mean end return p.global end }, "x:lt%(y%)")
  fails({ outer = function() end }, "returns nothing; it must return the new global")
  fails({ outer = function() return 3 end }, "gives 3 as its global; expected one number computed")
  fails({ outer = function(p) local sum = p.mean:sum() return sum end }, "averaging_test.lua:%d+: reduce_sum cannot be used here")
  fails({ outer = function(p) return pg.exp(p.mean) end }, "exp cannot be used here")
  fails({ outer = function(p) return p.mean ^ 2 end }, "pow cannot be used here")
  fails({ outer = function(p) return p.mean * math.random() end }, "math.random")
  fails({ outer = 3 }, "outer is 3; expected function")
  fails({ every = 5 }, "outer is nothing; expected function")
  fails({ evry = 5, outer = function(p) return p.mean end }, "averaging_test.lua:%d+: .*'evry'.*did you mean 'every'")
  fails({ every = 0, outer = function(p) return p.mean end }, "'every' is out of range")
  fails({ state = { mean = 0 }, outer = function(p) return p.mean end }, "'mean' is a name that an outer step has already")
  fails({ state = { rate = 0 }, rate = 1, outer = function(p) return p.mean end }, "'rate'")
  fails({ rate = function(p) return p.mean end, outer = function(p) return p.rate * p.mean end }, "there is no 'mean' here")
  fails({ 5, outer = function(p) return p.mean end }, "no values without a name")
  fails({ momentm = 1 }, "averaging_test.lua:%d+: .*did you mean 'momentum'", "diloco")
  fails({ every = 0 }, "averaging_test.lua:%d+: .*'every' is out of range", "diloco")
end

function tests.presets_are_names_and_options()
  check.equal(pg.averaging.diloco { every = 50, momentum = 0.5 }, { type = "diloco", every = 50, momentum = 0.5 })
  check.equal(pg.averaging.bmuf { nesterov = false }, { type = "bmuf", nesterov = false })
  check.equal(pg.averaging.slowmo {}, { type = "slowmo" })
end

return tests
