-- Takes events from the limits of apps, and claims the keys of their requests: of each request both or neither.
--
-- Per app Redis holds one hash: `base`, what the audit has counted up to a minute; `days`, its totals by day; and
-- for each minute that is not audited yet `m<minute>`, the events taken in it, and `x<minute>`, its empty batches.
-- A key holds the count of events it was accepted with, or the node that has claimed it.
--
-- ARGV: node, ms for which a claim is held, then
--   accepted keys: count, and for each: events, ms for which it is remembered      KEYS: each key
--   released keys: count                                                           KEYS: each key
--   claims without a take: count                                                   KEYS: each key
--   apps: count, and for each:                                                     KEYS: fence, hash
--     limits of month, day (-1: none) and minute; first minutes of its billing cycle and of the next; events wanted
--     in advance; events given back (below 0: taken without Redis): count, and for each: minute, events; takes: count, and for each: events, and
--     whether it has a key (1 or 0)                                                KEYS: each key
-- Replies: Redis's time in ms; an answer for each claim; for each app: its minute, used of month, day and minute,
-- granted in advance, and an answer for each take.
-- Answers: 0 done, 1 month full, 2 day full, 3 minute full, 4 key held by another node, 5 the cycle is not the one of
-- Redis's minute, 100 + n: the key was accepted with n events.

local DAY = 1440
local time = redis.call('TIME')
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
local keyAt, argAt = 0, 2
local node, claimMs = ARGV[1], ARGV[2]

local function nextKey()
  keyAt = keyAt + 1
  return KEYS[keyAt]
end

local function nextNumber()
  argAt = argAt + 1
  return tonumber(ARGV[argAt])
end

-- 0: the key is free, or this node's already.
local function askKey(key)
  local held = redis.call('GET', key)
  if not held or held == node then return 0 end
  if string.match(held, '^%d%d?%d?$') then return 100 + held end
  return 4
end

local function claim(key)
  redis.call('SET', key, node, 'PX', claimMs)
end

local fences = {}
-- The last minute that the audit has closed for a whole partition.
local function fenceOf(key)
  if not fences[key] then
    local fence = redis.call('GET', key)
    fences[key] = tonumber(fence and string.match(fence, '^%d+ (%d+)$')) or 0
  end
  return fences[key]
end

-- Sum of the totals of the days from `first` to `last`.
local function sumOfDays(days, first, last)
  local sum = 0
  for day, total in string.gmatch(days or '', '(%d+):(%d+)') do
    day = tonumber(day)
    if day >= first and day <= last then sum = sum + total end
  end
  return sum
end

for _ = 1, nextNumber() do
  local events = nextNumber()
  redis.call('SET', nextKey(), events, 'PX', nextNumber())
end
for _ = 1, nextNumber() do
  local key = nextKey()
  if redis.call('GET', key) == node then redis.call('DEL', key) end
end

local reply = { nowMs }
for _ = 1, nextNumber() do
  local key = nextKey()
  local answer = askKey(key)
  if answer == 0 then claim(key) end
  reply[#reply + 1] = answer
end

for _ = 1, nextNumber() do
  local fence, counts = fenceOf(nextKey()), nextKey()
  local monthLimit, dayLimit, minuteLimit = nextNumber(), nextNumber(), nextNumber()
  local cycle, nextCycle, wanted = nextNumber(), nextNumber(), nextNumber()

  local base, days, open, empty = nil, nil, {}, {}
  local fields = redis.call('HGETALL', counts)
  for at = 1, #fields, 2 do
    local name, value = fields[at], fields[at + 1]
    if name == 'base' then base = value
    elseif name == 'days' then days = value
    elseif string.sub(name, 1, 1) == 'm' then open[tonumber(string.sub(name, 2))] = tonumber(value)
    else empty[tonumber(string.sub(name, 2))] = tonumber(value) end
  end
  local closed, baseCycle, baseUsed, newest, baseDay, baseDayUsed = 0, -1, 0, -1, -1, 0
  if base then
    local _, a, b, c, d, e, f = string.match(base, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
    closed, baseCycle, baseUsed = tonumber(a), tonumber(b), tonumber(c)
    newest, baseDay, baseDayUsed = tonumber(d), tonumber(e), tonumber(f)
  end
  closed = math.max(closed, fence)
  -- A clock that was set back opens no minute that the audit has closed.
  local minute = math.max(math.floor(nowMs / 60000), closed + 1)
  local day = math.floor(minute / DAY)

  for _ = 1, nextNumber() do
    local given, events = nextNumber(), nextNumber()
    if given > closed and (open[given] or events < 0) then
      open[given] = math.max(0, (open[given] or 0) - events)
      redis.call('HSET', counts, 'm' .. given, open[given])
    end
  end

  local monthUsed, dayUsed = 0, 0
  if baseCycle == cycle then monthUsed = baseUsed
  elseif newest >= cycle then monthUsed = sumOfDays(days, math.floor(cycle / DAY), math.floor(newest / DAY)) end
  if baseDay == day then dayUsed = baseDayUsed
  elseif baseDay > day then dayUsed = sumOfDays(days, day, day) end
  for opened, events in pairs(open) do
    if opened <= closed then redis.call('HDEL', counts, 'm' .. opened)
    else
      if opened >= cycle then monthUsed = monthUsed + events end
      if math.floor(opened / DAY) == day then dayUsed = dayUsed + events end
    end
  end
  for opened in pairs(empty) do
    if opened < minute then redis.call('HDEL', counts, 'x' .. opened) end
  end
  local minuteUsed = (open[minute] or 0) + (empty[minute] or 0)

  local taken, emptyTaken, answers = 0, 0, {}
  for at = 1, nextNumber() do
    local events = nextNumber()
    local key = nextNumber() == 1 and nextKey()
    local answer = key and askKey(key) or 0
    if answer == 0 then
      local cost = math.max(1, events)
      if minute < cycle or minute >= nextCycle then answer = 5
      elseif events > 0 and monthUsed + events > monthLimit then answer = 1
      elseif events > 0 and dayLimit >= 0 and dayUsed + events > dayLimit then answer = 2
      elseif minuteUsed + cost > minuteLimit then answer = 3
      else
        monthUsed, dayUsed, minuteUsed = monthUsed + events, dayUsed + events, minuteUsed + cost
        taken = taken + events
        if events == 0 then emptyTaken = emptyTaken + 1 end
        if key then claim(key) end
      end
    end
    answers[at] = answer
  end

  local granted = 0
  if wanted > 0 and minute >= cycle and minute < nextCycle then
    local left = math.min(monthLimit - monthUsed, minuteLimit - minuteUsed)
    if dayLimit >= 0 then left = math.min(left, dayLimit - dayUsed) end
    -- The bucket shrinks with the room, so that little is left in one node's when another has to refuse.
    granted = math.max(0, math.min(wanted, math.floor(left / 16)))
    monthUsed, dayUsed, minuteUsed = monthUsed + granted, dayUsed + granted, minuteUsed + granted
    taken = taken + granted
  end
  -- An app that stays away is forgotten when no cycle can hold what it used.
  if emptyTaken > 0 and redis.call('HINCRBY', counts, 'x' .. minute, emptyTaken) == emptyTaken then
    redis.call('EXPIRE', counts, 40 * 86400)
  end
  if taken > 0 and redis.call('HINCRBY', counts, 'm' .. minute, taken) == taken then
    redis.call('EXPIRE', counts, 40 * 86400)
  end
  reply[#reply + 1] = minute
  reply[#reply + 1] = monthUsed
  reply[#reply + 1] = dayUsed
  reply[#reply + 1] = minuteUsed
  reply[#reply + 1] = granted
  for at = 1, #answers do reply[#reply + 1] = answers[at] end
end
return reply
