-- pg.averaging: a single worker ignores these; a cluster follows them.
local native = require "perigee.native"
local averaging = require "perigee.averaging"
local rules = require "perigee.rules"

local definitions = native.family "policy"

return { averaging = averaging.constructors(definitions, rules.family("averaging policy", definitions)) }
