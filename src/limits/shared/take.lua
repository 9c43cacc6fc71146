-- Takes events from the limits of apps, and claims the keys of their requests: of each request both or neither.
--
-- Per app Redis holds one hash: `base`, what the audit has counted up to a minute; `days`, its totals by day; and
-- for each minute that is not audited yet `m<minute>`, the events taken in it, and `x<minute>`, its empty batches.
-- A key holds the count of events it was accepted with, or the node that has claimed it.
--
-- ARGV[1] is one JSON list, since Redis spends more on many arguments than on a take:
--   node, ms for which a claim is held
--   accepted keys: count, and for each: events, ms for which it is remembered      KEYS: each key
--   released keys: count                                                           KEYS: each key
--   apps: count, and for each:                                                     KEYS: fence, hash
--     limits of month, day (-1: none) and minute; first minutes of its billing cycle and of the next; events wanted
--     in advance; events given back (below 0: taken without Redis): count, and for each: minute, events; takes: count,
--     and for each: events, and whether it has a key (1 or 0)                      KEYS: each key
-- Replies: Redis's time in ms; for each app: its minute, the first minute of its cycle, used of month, day and minute,
-- granted in advance, and an answer for each take.
-- Answers: 0 done, 1 month full, 2 day full, 3 minute full, 4 key held by another node, 5 Redis's minute is before the
-- cycle, 100 + n: the key was accepted with n events.

local DAY = 1440
-- An app that stays away so long is forgotten: no billing cycle holds what it used.
local KEPT_SECONDS = 40 * 86400
-- With more minutes open than these the whole hash is read.
local MOST_NAMED = 8
-- A minute that lies further ahead was written by no audit.
local MOST_AHEAD = DAY

local asked = cjson.decode(ARGV[1])
local node, claimMs = asked[1], asked[2]
local keyAt, askedAt = 0, 2
local time = redis.call('TIME')
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)

local function nextKey()
  keyAt = keyAt + 1
  return KEYS[keyAt]
end

local function nextNumber()
  askedAt = askedAt + 1
  return asked[askedAt]
end

-- What no script has written is taken to be absent: an error would stop every app of the call.
local function get(key)
  local value = redis.pcall('GET', key)
  return type(value) == 'string' and value
end

-- 0: the key is free, or this node's already.
local function askKey(key)
  local held = get(key)
  if not held or held == node then return 0 end
  if string.match(held, '^%d%d?%d?$') then return 100 + held end
  return 4
end

local fences = {}
-- Of a partition: the last minute that the audit has closed, the running one, and the fields that count since.
local function fenceOf(key)
  local fence = fences[key]
  if fence then return fence end
  local text = get(key)
  local closed = tonumber(text and string.match(text, '^%d+ (%d+)$')) or 0
  local clock = math.floor(nowMs / 60000)
  if closed > clock + MOST_AHEAD then closed = 0 end
  -- A clock that was set back opens no minute that the audit has closed.
  local minute = math.max(clock, closed + 1)
  fence = { closed = closed, minute = minute }
  if minute - closed <= MOST_NAMED then
    fence.names = { 'base', 'x' .. minute }
    for opened = closed + 1, minute do fence.names[#fence.names + 1] = 'm' .. opened end
  end
  fences[key] = fence
  return fence
end

-- A count that a script has written; nil: it is none.
local function countOf(text)
  local count = tonumber(text or nil)
  if count and count >= 0 and count < 1e15 then return count end
end

-- What is no hash is taken away, or the app would have no limits.
local function readHash(counts, ...)
  local values = redis.pcall(...)
  if not values.err then return values end
  redis.call('DEL', counts)
  return {}
end

-- The app's base, what is open by minute, and the empty batches of the running minute.
local function readApp(counts, fence)
  local open = {}
  if fence.names then
    local values = readHash(counts, 'HMGET', counts, unpack(fence.names))
    for at = 3, #values do
      if values[at] then open[fence.closed + at - 2] = countOf(values[at]) end
    end
    return values[1], open, countOf(values[2]) or 0
  end
  local base, empty = false, 0
  local fields = readHash(counts, 'HGETALL', counts)
  for at = 1, #fields, 2 do
    local name, value = fields[at], fields[at + 1]
    local opened = tonumber(string.match(name, '^m(%d+)$'))
    if name == 'base' then base = value
    elseif opened then open[opened] = countOf(value)
    elseif name == 'x' .. fence.minute then empty = countOf(value) or 0 end
  end
  return base, open, empty
end

-- Sum of the audit's totals from day `first` to day `last`.
local function sumOfDays(counts, first, last)
  local sum = 0
  for day, total in string.gmatch(redis.call('HGET', counts, 'days') or '', '(%d+):(%d+)') do
    day = tonumber(day)
    if day >= first and day <= last then sum = sum + total end
  end
  return sum
end

-- Adds to a field; one that no script has written is taken to be absent.
local function add(counts, name, events)
  local sum = redis.pcall('HINCRBY', counts, name, events)
  if type(sum) == 'number' then return sum end
  redis.call('HSET', counts, name, events)
  return events
end

-- The first take of a minute sweeps out the minutes that are closed, and the empty batches of those before.
local function tidy(counts, closed, minute)
  redis.call('EXPIRE', counts, KEPT_SECONDS)
  for _, name in ipairs(redis.call('HKEYS', counts)) do
    local kind, opened = string.match(name, '^([mx])(%d+)$')
    if kind and tonumber(opened) <= (kind == 'm' and closed or minute - 1) then redis.call('HDEL', counts, name) end
  end
end

for _ = 1, nextNumber() do
  local events = nextNumber()
  redis.call('SET', nextKey(), events, 'PX', nextNumber())
end
for _ = 1, nextNumber() do
  local key = nextKey()
  if get(key) == node then redis.call('DEL', key) end
end

local reply = { nowMs }
for _ = 1, nextNumber() do
  local fence, counts = fenceOf(nextKey()), nextKey()
  local monthLimit, dayLimit, minuteLimit = nextNumber(), nextNumber(), nextNumber()
  local cycle, nextCycle, wanted = nextNumber(), nextNumber(), nextNumber()

  local base, open, empty = readApp(counts, fence)
  local closed, minute = fence.closed, fence.minute
  local baseCycle, baseUsed, newest, baseDay, baseDayUsed = -1, 0, -1, -1, 0
  if base then
    local a, b, c, d, e, f = string.match(base, '^%d+ (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
    if a and tonumber(a) <= fence.minute + MOST_AHEAD then
      closed = math.max(closed, tonumber(a))
      baseCycle, baseUsed, newest = tonumber(b), tonumber(c), tonumber(d)
      baseDay, baseDayUsed = tonumber(e), tonumber(f)
    end
  end
  if minute <= closed then
    minute = closed + 1
    open[minute] = countOf(redis.call('HGET', counts, 'm' .. minute))
  end
  -- The node's clock may be behind by a moment in which the cycle turned.
  if minute >= nextCycle then cycle = nextCycle end
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
  elseif newest >= cycle then monthUsed = sumOfDays(counts, math.floor(cycle / DAY), math.floor(newest / DAY)) end
  if baseDay == day then dayUsed = baseDayUsed
  elseif baseDay > day then dayUsed = sumOfDays(counts, day, day) end
  for opened, events in pairs(open) do
    if opened > closed then
      if opened >= cycle then monthUsed = monthUsed + events end
      if math.floor(opened / DAY) == day then dayUsed = dayUsed + events end
    end
  end
  local minuteUsed = (open[minute] or 0) + empty

  local taken, emptyTaken, answers = 0, 0, {}
  for at = 1, nextNumber() do
    local events = nextNumber()
    local key = nextNumber() == 1 and nextKey()
    local answer = key and askKey(key) or 0
    if answer == 0 then
      local cost = math.max(1, events)
      if minute < cycle then answer = 5
      elseif events > 0 and monthUsed + events > monthLimit then answer = 1
      elseif events > 0 and dayLimit >= 0 and dayUsed + events > dayLimit then answer = 2
      elseif minuteUsed + cost > minuteLimit then answer = 3
      else
        monthUsed, dayUsed, minuteUsed = monthUsed + events, dayUsed + events, minuteUsed + cost
        taken = taken + events
        if events == 0 then emptyTaken = emptyTaken + 1 end
        if key then redis.call('SET', key, node, 'PX', claimMs) end
      end
    end
    answers[at] = answer
  end

  local granted = 0
  if wanted > 0 and minute >= cycle then
    local left = math.min(monthLimit - monthUsed, minuteLimit - minuteUsed)
    if dayLimit >= 0 then left = math.min(left, dayLimit - dayUsed) end
    -- The bucket shrinks with the room, so that little is left in one node's when another has to refuse.
    granted = math.max(0, math.min(wanted, math.floor(left / 16)))
    monthUsed, dayUsed, minuteUsed = monthUsed + granted, dayUsed + granted, minuteUsed + granted
    taken = taken + granted
  end
  local isFirst = false
  if emptyTaken > 0 then isFirst = add(counts, 'x' .. minute, emptyTaken) == emptyTaken end
  if taken > 0 then isFirst = add(counts, 'm' .. minute, taken) == taken or isFirst end
  if isFirst then tidy(counts, closed, minute) end

  local at = #reply
  reply[at + 1], reply[at + 2], reply[at + 3], reply[at + 4] = minute, cycle, monthUsed, dayUsed
  reply[at + 5], reply[at + 6] = minuteUsed, granted
  for place = 1, #answers do reply[at + 6 + place] = answers[place] end
end
return reply
