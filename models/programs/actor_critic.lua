-- Actor and critic (Mnih et al. 2016, A2C): an actor balances a pole on a cart, a critic foretells how long it will stand, and each learns by a loss
-- of its own. Sixteen carts stand side by side, so that a step of all is one product of matrices. What there is to learn from depends on what the
-- actor has become, so this is a program with tensors and no job: the examples of a job's `objectives` are the same whatever its network does.
--
--     perigee -e 'dofile "models/programs/actor_critic.lua"'             -- seconds; the curve goes to actor_critic.svg
--     perigee -e 'small = true dofile "models/programs/actor_critic.lua"'
local pg = require "perigee"
pg.seed(1)
local small = rawget(_G, "small")
local carts, horizon, updates = 16, 32, small and 60 or 600
local discount, entropy_weight, longest = 0.98, 0.01, 500
local scale = 0.1 -- of advantages, which are a few steps large

-- The cart and its pole (Barto, Sutton & Anderson 1983): a push of 10 N to the left or right every 20 ms. A row of `s` is place, speed, angle and
-- angular speed; the pole has fallen when it leans by 12 degrees, or when the cart is 2.4 m away.
local gravity, pole_mass, mass, half_pole, push, seconds = 9.8, 0.1, 1.1, 0.5, 10, 0.02

local function column(s, i) return s[{ {}, { i, i } }] end

local function fresh(count) return pg.rand(count, 4) * 0.1 - 0.05 end

local function moved(s, right)
  local x, v, angle, w = column(s, 1), column(s, 2), column(s, 3), column(s, 4)
  local cos, sin = angle:cos(), angle:sin()
  local force = ((right * 2 - 1) * push + w * w * sin * (pole_mass * half_pole)) / mass
  local turn = (sin * gravity - cos * force) / ((4 / 3 - cos * cos * (pole_mass / mass)) * half_pole)
  local pull = force - turn * cos * (pole_mass * half_pole / mass)
  return pg.concatenate({ x + v * seconds, v + pull * seconds, angle + w * seconds, w + turn * seconds }, 2)
end

local function fallen(s)
  return pg.maximum(column(s, 1):abs() / 2.4, column(s, 3):abs() / math.rad(12)):gt(1):to "f32"
end

local function layers(outputs) return pg.sequential { pg.dense { 64, activation = "tanh" }, pg.dense { outputs } } end
local actor, critic = layers(2):init(1, { 4 }), layers(1):init(2, { 4 })
local function rule() return pg.adam { lr = pg.linear { from = 3e-3, to = 0 } } end
local actor_rule, critic_rule = rule(), rule()

local actor_step = pg.compile(pg.value_and_grad(function(p, s, action, advantage)
  local scores = actor:apply(p, s)
  local log_p = scores:log_softmax(2)
  local spread = -(log_p * log_p:exp()):sum(2)
  return (pg.cross_entropy(scores, action) * advantage - spread * entropy_weight):mean()
end))
local critic_step = pg.compile(pg.value_and_grad(function(p, s, wanted)
  local wrong = critic:apply(p, s):reshape(-1) - wanted
  return (wrong * wrong):mean()
end))

-- The next `horizon` steps of all carts: states, pushes, and what is behind each.
local s, age, rewards = fresh(carts), pg.zeros(carts, 1), {}
local lately = 10  -- steps that a pole stands, lately

local function play()
  local seen, actions, fell, broken_off, behind = {}, {}, {}, {}, {}
  for step = 1, horizon do
    local chance = actor(s):softmax(2)
    local right = column(pg.rand(carts, 1):lt(column(chance, 2)):to "f32", 1)
    seen[step], actions[step] = s, right
    s, age = moved(s, right), age + 1
    fell[step], broken_off[step] = fallen(s), age:ge(longest):to "f32"
    behind[step] = critic(s)
    local over = pg.maximum(fell[step], broken_off[step])
    for _, steps in ipairs((age * over):reshape(-1):totable()) do
      if steps > 0 then lately = 0.95 * lately + 0.05 * steps end
    end
    s, age = s * (1 - over) + fresh(carts) * over, age * (1 - over)
  end
  -- Each step counts 1. What is behind the last one counts as the critic says, also where a game was broken off with the pole upright.
  local wanted, worth = {}, behind[horizon]
  for step = horizon, 1, -1 do
    worth = 1 + (worth + (behind[step] - worth) * broken_off[step]) * discount * (1 - fell[step])
    wanted[step] = worth
  end
  return pg.concatenate(seen, 1), pg.concatenate(actions, 1):reshape(-1), pg.concatenate(wanted, 1):reshape(-1)
end

for update = 1, updates do
  local states, right, wanted = play()
  local at = { progress = (update - 1) / updates }
  local advantage = wanted - critic(states):reshape(-1)
  local _, critic_slope = critic_step(critic:parameters(), states, wanted)
  critic_rule:step(critic:parameters(), critic_slope, at)
  local _, actor_slope = actor_step(actor:parameters(), states, right:to "i64" + 1, advantage * scale)
  actor_rule:step(actor:parameters(), actor_slope, at)
  rewards[update] = lately
  if update % (updates / 10) == 0 then print(("update %d: the pole stands for %.0f steps"):format(update, lately)) end
end

local file = small and os.tmpname() .. ".svg" or "actor_critic.svg"
pg.plot(pg.tensor(rewards), { title = "steps that the pole stands", file = file })
if small then os.remove(file) end
