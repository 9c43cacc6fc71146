-- Takes events from the limits of apps and claims the keys of their requests: for each request both or neither.
--
-- Each app has one hash in Redis. `base`: the audit's count up to a minute. `days`: the audit's totals by day. For each
-- minute not audited yet, `m<minute>`: events taken, and `x<minute>`: empty batches.
-- A key holds `events` or `events:hash` of the batch it was accepted with, or the node that has claimed it, or `burnt`: it
-- is free, and the stream knows that its batch was in doubt and is not stored.
--
-- ARGV[1] is one JSON array, because many arguments cost Redis more than a take does:
--   node, ms until a claim expires
--   accepted keys: count, then for each: its value, ms until it is forgotten       KEYS: each key
--   released keys: count                                                           KEYS: each key
--   apps: count, then for each:                                                    KEYS: fence, doubts, hash
--     limits of month, day (-1: none) and minute
--     first minute of its billing cycle, first minute of the next one
--     events requested for the node's bucket
--     corrections: count, then for each: minute, events to subtract (below 0: to add)
--     takes: count, then for each: events, whether it has a key (1 or 0)           KEYS: each key
-- Reply: Redis's time in ms, then for each app: its minute, the first minute of its cycle, events used in the month, the
-- day and the minute, events granted for the bucket, and one answer for each take.
-- Answers: 0 taken, 1 month full, 2 day full, 3 minute full, 4 key held by another node, 5 Redis's minute is before the
-- cycle, 100 + n: the key was accepted with n % 1000 events, and a body whose hash is n / 1000 (0: not known), -n: taken
-- by an earlier request with this key, which is in doubt: n % 1000 events of the minute n / 1000.

local DAY = 1440
-- The hash of an idle app expires after 40 days: longer than any billing cycle.
local EXPIRE_SECONDS = 40 * 86400
-- With up to this many open minutes their fields are read by name; with more, the whole hash.
local MAX_NAMED_MINUTES = 8
-- In minutes. No audit closes a minute further ahead of the clock: such a value is corrupt.
local MAX_AHEAD = DAY

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

-- A value of the wrong type counts as absent: an error would fail every app of the call.
local function get(key)
  local value = redis.pcall('GET', key)
  return type(value) == 'string' and value
end

-- 0: the key is free, or this node has claimed it already.
local function checkKey(key)
  local held = get(key)
  if not held or held == node or held == 'burnt' then return 0 end
  if string.match(held, '^%d%d?%d?$') then return 100 + held end
  local events, hash = string.match(held, '^(%d%d?%d?):(%d+)$')
  if events then return 100 + events + 1000 * hash end
  return 4
end

-- What an earlier request with this key took: 1000 * its minute + its events. nil: nothing that still counts.
local function doubtOf(fence, doubts, key, events, closed)
  if fence.doubts == nil then fence.doubts = redis.pcall('HLEN', doubts) end
  if type(fence.doubts) ~= 'number' or fence.doubts == 0 then return nil end
  local text = redis.call('HGET', doubts, string.match(key, '[^:]+$'))
  local minute, taken = string.match(text or '', '^(%d+) (%d+) ')
  if minute and tonumber(minute) > closed and tonumber(taken) == events then return 1000 * minute + taken end
end

local fences = {}
-- A partition's last closed minute, its current minute, and the fields to read of each app.
local function fenceOf(key)
  local fence = fences[key]
  if fence then return fence end
  local text = get(key)
  local closed = tonumber(text and string.match(text, '^%d+ (%d+)$')) or 0
  local clock = math.floor(nowMs / 60000)
  if closed > clock + MAX_AHEAD then closed = 0 end
  -- Where Redis's clock was set back, a minute that the audit has closed must not be counted in again.
  local minute = math.max(clock, closed + 1)
  fence = { closed = closed, minute = minute }
  if minute - closed <= MAX_NAMED_MINUTES then
    fence.names = { 'base', 'x' .. minute }
    for opened = closed + 1, minute do fence.names[#fence.names + 1] = 'm' .. opened end
  end
  fences[key] = fence
  return fence
end

-- nil: not a valid count.
local function countOf(text)
  local count = tonumber(text or nil)
  if count and count >= 0 and count < 1e15 then return count end
end

-- A key that is not a hash is deleted: with it in place, the app would have no limits.
local function readHash(counts, ...)
  local values = redis.pcall(...)
  if not values.err then return values end
  redis.call('DEL', counts)
  return {}
end

-- Returns the app's base, its events by open minute, and the empty batches of the current minute.
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

-- Adds to a field; replaces one that is not a number.
local function add(counts, name, events)
  local sum = redis.pcall('HINCRBY', counts, name, events)
  if type(sum) == 'number' then return sum end
  redis.call('HSET', counts, name, events)
  return events
end

-- Deletes closed minutes, and empty batches of earlier minutes. Runs at the app's first take of each minute.
local function tidy(counts, closed, minute)
  redis.call('EXPIRE', counts, EXPIRE_SECONDS)
  for _, name in ipairs(redis.call('HKEYS', counts)) do
    local kind, opened = string.match(name, '^([mx])(%d+)$')
    if kind and tonumber(opened) <= (kind == 'm' and closed or minute - 1) then redis.call('HDEL', counts, name) end
  end
end

for _ = 1, nextNumber() do
  local accepted = nextNumber()
  redis.call('SET', nextKey(), accepted, 'PX', nextNumber())
end
for _ = 1, nextNumber() do
  local key = nextKey()
  if get(key) == node then redis.call('DEL', key) end
end

local reply = { nowMs }
for _ = 1, nextNumber() do
  local fence, doubts, counts = fenceOf(nextKey()), nextKey(), nextKey()
  local monthLimit, dayLimit, minuteLimit = nextNumber(), nextNumber(), nextNumber()
  local cycle, nextCycle, wanted = nextNumber(), nextNumber(), nextNumber()

  local base, open, empty = readApp(counts, fence)
  local closed, minute = fence.closed, fence.minute
  local baseCycle, baseUsed, newest, baseDay, baseDayUsed = -1, 0, -1, -1, 0
  if base then
    local a, b, c, d, e, f = string.match(base, '^%d+ (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
    if a and tonumber(a) <= fence.minute + MAX_AHEAD then
      closed = math.max(closed, tonumber(a))
      baseCycle, baseUsed, newest = tonumber(b), tonumber(c), tonumber(d)
      baseDay, baseDayUsed = tonumber(e), tonumber(f)
    end
  end
  if minute <= closed then
    minute = closed + 1
    open[minute] = countOf(redis.call('HGET', counts, 'm' .. minute))
  end
  -- The node works out the cycle by its estimate of this clock, and may be late when the cycle turns.
  if minute >= nextCycle then cycle = nextCycle end
  local day = math.floor(minute / DAY)

  for _ = 1, nextNumber() do
    local corrected, events = nextNumber(), nextNumber()
    if corrected > closed and (open[corrected] or events < 0) then
      open[corrected] = math.max(0, (open[corrected] or 0) - events)
      redis.call('HSET', counts, 'm' .. corrected, open[corrected])
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
    local answer = key and checkKey(key) or 0
    local before = key and answer == 0 and doubtOf(fence, doubts, key, events, closed)
    if before then
      answer = -before
      redis.call('SET', key, node, 'PX', claimMs)
    elseif answer == 0 then
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
    -- At most 1/16 of what is left: near a limit, one node's bucket must not hold events that another has to refuse.
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
