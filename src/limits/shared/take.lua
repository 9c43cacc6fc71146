-- Takes events from the limits of apps and claims the keys of their requests: for each request both or neither.
--
-- Each app has one hash in Redis. `base`: the audit's count up to a minute. `days`: the audit's totals by day. For each
-- minute not audited yet, `m<minute>`: events taken, `n<minute>:<node>`: what one node took and gave back of them (two sums
-- that only grow), and `x<minute>`: empty batches. `s`: the spools that hold batches of the app, and `s:<spool>`: what each holds
-- (spooled.lua).
-- A key holds `events` or `events:hash` of the batch it was accepted with, or the node that has claimed it, or `burnt`: it
-- is free, and the stream knows that its batch was in doubt and is not stored.
--
-- ARGV[1] is one JSON array, because many arguments cost Redis more than a take does:
--   node, ms until a claim expires, the number of the call
--   accepted keys: count, then for each: its value, ms until it is forgotten       KEYS: each key
--   released keys: count                                                           KEYS: each key
--   partitions: count, then for each:                                              KEYS: fence, beat
--     newest closed minute and highest beat that the node has seen, 1 to raise the beat
--   apps: count, then for each:                                                    KEYS: fence, doubts, hash
--     limits of month, day (-1: none) and minute
--     first minute of its billing cycle, first minute of the next one
--     events requested for the node's token budget
--     what Redis has acknowledged to the node: count, then for each: minute, events taken, events given back
--     corrections: count, then for each: minute, events to subtract (below 0: to add)
--     takes: count, then for each: events, whether it has a key (1 or 0), whether   KEYS: each key
--       it only asks (1 or 0): it is answered as ever, and takes and claims nothing
-- Reply: Redis's time in ms, the number of the call, then for each app: its minute, the first minute of its cycle, events used in
-- the month, the day and the minute, events granted for the token budget, events the node has taken and given back in this
-- minute, events in spools, of them those in spools of dead nodes, and one answer for each take; then for each partition: its
-- closed minute, its beat, when it was last found to have lost data
-- (ms), and 1 if its counts cannot be used yet.
-- Answers: 0 taken, 1 month full, 2 day full, 3 minute full, 4 key held by another node, 5 Redis's minute is before the
-- cycle, 6 Redis has forgotten, 100 + n: the key was accepted with n % 1000 events, and a body whose hash is n / 1000 (0:
-- not known), -n: taken by an earlier request with this key, which is in doubt: n % 1000 events of the minute n / 1000.

local DAY = 1440
-- The hash of an idle app expires after 40 days: longer than any billing cycle.
local EXPIRE_SECONDS = 40 * 86400
-- With up to this many open minutes their fields are read by name; with more, the whole hash.
local MAX_NAMED_MINUTES = 8
-- In minutes. No audit closes a minute further ahead of this clock (replace.lua): such a fence may rightly go back.
local MAX_AHEAD = 2
-- After a loss the counts rest until each node, which calls every second, has noticed it.
local REST_MS = 1500
-- Added to the beat after a loss, so that what other nodes had seen before it does not show the same loss again.
local BEATS_AFTER_LOSS = 1000000
-- In minutes. Of older ones, all of whose events are in spools, the sums are gone while the fence stands still (spooled.lua).
local OLD = 5
-- A spool's field that was not written for so long is that of a dead node.
local SPOOL_DEAD_MS = 120000
-- Any number in Redis may be somebody else's. What is larger is no beat, and no number that a node could read exactly.
local MAX_BEAT = 1e13
local MAX_ANSWER = 2 ^ 53 - 1

local asked = cjson.decode(ARGV[1])
local node, claimMs = asked[1], asked[2]
local keyAt, askedAt = 0, 3
local time = redis.call('TIME')
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
local clock = math.floor(nowMs / 60000)

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
  local opened = tonumber(minute)
  if opened and opened > closed and opened <= clock + MAX_AHEAD + 1 and tonumber(taken) == events then return 1000 * minute + taken end
end

local fences = {}
-- A partition's last closed minute, its current minute, and the fields to read of each app.
local function openFence(key, text)
  local closed = tonumber(text and string.match(text, '^%d+ (%d+)$')) or 0
  -- The audit has to write the counts again: until then nodes go by their shares.
  local isForgotten = closed > clock + MAX_AHEAD
  if isForgotten then closed = 0 end
  -- Where Redis's clock was set back, a minute that the audit has closed must not be counted in again.
  local minute = math.max(clock, closed + 1)
  local fence = { closed = closed, minute = minute, isForgotten = isForgotten }
  if minute - closed <= MAX_NAMED_MINUTES then
    fence.names = { 'base', 'x' .. minute, 's' }
    for opened = closed + 1, minute do fence.names[#fence.names + 1] = 'm' .. opened end
    for opened = closed + 1, minute do fence.names[#fence.names + 1] = 'n' .. opened .. ':' .. node end
  end
  fences[key] = fence
  return fence
end

local function fenceOf(key)
  return fences[key] or openFence(key, get(key))
end

local function saveBeat(fence)
  redis.call('SET', fence.beatKey, fence.beat .. ' ' .. fence.newest .. ' ' .. fence.lostMs)
end

local function rests(fence)
  return nowMs >= fence.lostMs and nowMs - fence.lostMs < REST_MS
end

-- The counts rest from now on. A loss that is noticed again meanwhile is the same one.
local function noticeLoss(fence)
  if not fence.beatKey or rests(fence) then return end
  fence.lostMs, fence.isForgotten = nowMs, true
  saveBeat(fence)
end

-- Finds out whether Redis has forgotten what a node saw of a partition: it was emptied, or went back to an older state.
-- Beside the fence it keeps `beat newest lost`: a number that only grows, the newest closed minute that any node has
-- seen, and when a loss was last noticed. The counts cannot be used until the audit has written that minute again.
local function checkPartition(fenceKey, beatKey, seenMinute, seenBeat, raises)
  local texts = redis.call('MGET', fenceKey, beatKey)
  local fence = openFence(fenceKey, texts[1])
  local beat, newest, lostMs = string.match(texts[2] or '', '^(%d+) (%d+) (%d+)$')
  beat, newest = tonumber(beat) or 0, tonumber(newest) or 0
  if beat >= MAX_BEAT then beat = 0 end
  fence.beatKey, fence.beat, fence.newest, fence.lostMs = beatKey, beat + raises, newest, tonumber(lostMs) or 0
  local latest = clock + MAX_AHEAD
  if newest > latest then fence.newest = 0 end
  if seenMinute > fence.newest and seenMinute <= latest then fence.newest = seenMinute end
  fence.isForgotten = fence.isForgotten or fence.closed < fence.newest or rests(fence)
  if seenBeat > beat then
    fence.beat = seenBeat + BEATS_AFTER_LOSS + raises
    noticeLoss(fence)
  end
  if fence.beat ~= beat or fence.newest ~= newest then saveBeat(fence) end
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

-- Returns the app's base, its events by open minute, the empty batches of the current minute, this node's sums by open
-- minute, and the names of the spools that hold batches of it.
local function readApp(counts, fence)
  local open, own = {}, {}
  if fence.names then
    local values = readHash(counts, 'HMGET', counts, unpack(fence.names))
    local minutes = fence.minute - fence.closed
    for at = 1, minutes do
      if values[3 + at] then open[fence.closed + at] = countOf(values[3 + at]) end
      own[fence.closed + at] = values[3 + minutes + at] or nil
    end
    return values[1], open, countOf(values[2]) or 0, own, values[3]
  end
  local base, empty, spools = false, 0, false
  local fields = readHash(counts, 'HGETALL', counts)
  for at = 1, #fields, 2 do
    local name, value = fields[at], fields[at + 1]
    local kind, opened, of = string.match(name, '^([mn])(%d+):?(.*)$')
    if name == 'base' then base = value
    elseif name == 's' then spools = value
    elseif kind == 'm' then open[tonumber(opened)] = countOf(value)
    elseif kind == 'n' and of == node then own[tonumber(opened)] = value
    elseif name == 'x' .. fence.minute then empty = countOf(value) or 0 end
  end
  return base, open, empty, own, spools
end

-- For a minute that `readApp` has not read.
local function readMinute(counts, open, own, minute)
  local values = redis.call('HMGET', counts, 'm' .. minute, 'n' .. minute .. ':' .. node)
  open[minute], own[minute] = countOf(values[1]), values[2] or nil
end

-- This node's sums of a minute: events taken, and given back.
local function sumsOf(own, minute)
  local sums = own[minute]
  if type(sums) ~= 'table' then
    local taken, given = string.match(sums or '', '^(%d+) (%d+)$')
    sums = { taken = tonumber(taken) or 0, given = tonumber(given) or 0, isChanged = false }
    own[minute] = sums
  end
  return sums
end

-- Takes events of a minute, or gives them back (below 0).
local function count(open, own, minute, events)
  local sums = sumsOf(own, minute)
  if events > 0 then sums.taken = sums.taken + events
  else sums.given = math.min(sums.taken, sums.given - events) end
  sums.isChanged = true
  open[minute] = math.max(0, (open[minute] or 0) + events)
end

-- Counts again what was acknowledged to this node and has been lost since: true. Nothing is added twice.
local function restore(open, own, minute, taken, given)
  local sums = sumsOf(own, minute)
  taken, given = taken - sums.taken, given - sums.given
  if taken > 0 then count(open, own, minute, taken) end
  if given > 0 then count(open, own, minute, -given) end
  return taken > 0 or given > 0
end

local function write(counts, open, own)
  local fields = {}
  for opened, sums in pairs(own) do
    if type(sums) == 'table' and sums.isChanged then
      local at = #fields
      fields[at + 1], fields[at + 2] = 'm' .. opened, open[opened]
      fields[at + 3], fields[at + 4] = 'n' .. opened .. ':' .. node, sums.taken .. ' ' .. sums.given
    end
  end
  if #fields > 0 then redis.call('HSET', counts, unpack(fields)) end
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

-- What the spools of living nodes hold: events of the month, the day and the minute; then what all hold, and those of dead nodes.
local function readSpools(counts, spools, cycle, day, minute)
  local month, ofDay, ofMinute, held, ofDead = 0, 0, 0, 0, 0
  for spool in string.gmatch(spools, '%S+') do
    local value = redis.call('HGET', counts, 's:' .. spool) or ''
    local atMs, newest, events, cycles, days = string.match(value, '^(%d+) (%d+) (%d+) (%S+) (%S+)$')
    local isDead = atMs and nowMs - atMs >= SPOOL_DEAD_MS
    for first, sum in string.gmatch(cycles or '', '(%d+):(%d+)') do
      held = held + sum
      if isDead then ofDead = ofDead + sum
      elseif tonumber(first) >= cycle then month = month + sum end
    end
    if atMs and not isDead then
      if tonumber(newest) == minute then ofMinute = ofMinute + events end
      for of, sum in string.gmatch(days, '(%d+):(%d+)') do
        if tonumber(of) == day then ofDay = ofDay + sum end
      end
    end
  end
  return month, ofDay, ofMinute, held, ofDead
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
    local kind, opened = string.match(name, '^([mnx])(%d+)')
    if kind and tonumber(opened) <= (kind == 'x' and minute - 1 or closed) then redis.call('HDEL', counts, name) end
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

local checked = {}
for at = 1, nextNumber() do
  checked[at] = checkPartition(nextKey(), nextKey(), nextNumber(), nextNumber(), nextNumber())
end

local reply = { nowMs, asked[3] }
for _ = 1, nextNumber() do
  local fence, doubts, counts = fenceOf(nextKey()), nextKey(), nextKey()
  local monthLimit, dayLimit, minuteLimit = nextNumber(), nextNumber(), nextNumber()
  local cycle, nextCycle, wanted = nextNumber(), nextNumber(), nextNumber()

  local base, open, empty, own, spools = readApp(counts, fence)
  local closed, minute = fence.closed, fence.minute
  local baseCycle, baseUsed, newest, baseDay, baseDayUsed = -1, 0, -1, -1, 0
  if base then
    local a, b, c, d, e, f = string.match(base, '^%d+ (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
    if a then
      if tonumber(a) <= clock + MAX_AHEAD then closed = math.max(closed, tonumber(a)) end
      baseCycle, baseUsed, newest = tonumber(b), tonumber(c), tonumber(d)
      baseDay, baseDayUsed = tonumber(e), tonumber(f)
    end
  end
  if minute <= closed then
    minute = closed + 1
    readMinute(counts, open, own, minute)
  end
  -- The node works out the cycle by its estimate of this clock, and may be late when the cycle turns.
  if minute >= nextCycle then cycle = nextCycle end
  local day = math.floor(minute / DAY)
  local isFirst = not open[minute]

  for _ = 1, nextNumber() do
    local acknowledged, taken, given = nextNumber(), nextNumber(), nextNumber()
    local isOpen = acknowledged > closed and acknowledged <= minute and acknowledged >= clock - OLD
    if isOpen and restore(open, own, acknowledged, taken, given) then noticeLoss(fence) end
  end
  for _ = 1, nextNumber() do
    local corrected, events = nextNumber(), nextNumber()
    if corrected > minute then readMinute(counts, open, own, corrected) end
    if corrected > closed and (open[corrected] or events < 0) then count(open, own, corrected, -events) end
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
  local spooled, spooledOfDead = 0, 0
  if spools then
    local month, ofDay, ofMinute, held, ofDead = readSpools(counts, spools, cycle, day, minute)
    spooled, spooledOfDead = held, ofDead
    monthUsed, dayUsed, minuteUsed = monthUsed + month, dayUsed + ofDay, minuteUsed + ofMinute
  end

  local taken, emptyTaken, answers = 0, 0, {}
  for at = 1, nextNumber() do
    local events = nextNumber()
    local key = nextNumber() == 1 and nextKey()
    local asks = nextNumber() == 1
    local answer = key and checkKey(key) or 0
    local before = key and answer == 0 and doubtOf(fence, doubts, key, events, closed)
    if before then
      answer = -before
      if not asks then redis.call('SET', key, node, 'PX', claimMs) end
    elseif answer == 0 then
      local cost = math.max(1, events)
      if fence.isForgotten then answer = 6
      elseif minute < cycle then answer = 5
      elseif events > 0 and monthUsed + events > monthLimit then answer = 1
      elseif events > 0 and dayLimit >= 0 and dayUsed + events > dayLimit then answer = 2
      elseif minuteUsed + cost > minuteLimit then answer = 3
      elseif not asks then
        monthUsed, dayUsed, minuteUsed = monthUsed + events, dayUsed + events, minuteUsed + cost
        taken = taken + events
        if events == 0 then emptyTaken = emptyTaken + 1 end
        if key then redis.call('SET', key, node, 'PX', claimMs) end
      end
    end
    answers[at] = answer
  end

  local granted = 0
  if wanted > 0 and minute >= cycle and not fence.isForgotten then
    local left = math.min(monthLimit - monthUsed, minuteLimit - minuteUsed)
    if dayLimit >= 0 then left = math.min(left, dayLimit - dayUsed) end
    -- At most 1/16 of what is left: near a limit, one node's token budget must not hold events that another has to refuse.
    granted = math.max(0, math.min(wanted, math.floor(left / 16)))
    monthUsed, dayUsed, minuteUsed = monthUsed + granted, dayUsed + granted, minuteUsed + granted
    taken = taken + granted
  end
  isFirst = isFirst and taken > 0
  if emptyTaken > 0 then isFirst = add(counts, 'x' .. minute, emptyTaken) == emptyTaken or isFirst end
  if taken > 0 then count(open, own, minute, taken) end
  write(counts, open, own)
  if isFirst then tidy(counts, closed, minute) end

  local at = #reply
  reply[at + 1], reply[at + 2], reply[at + 3], reply[at + 4] = minute, cycle, monthUsed, dayUsed
  local sums = sumsOf(own, minute)
  reply[at + 5], reply[at + 6], reply[at + 7], reply[at + 8] = minuteUsed, granted, sums.taken, sums.given
  reply[at + 9], reply[at + 10] = spooled, spooledOfDead
  for place = 1, #answers do reply[at + 10 + place] = answers[place] end
end
for _, fence in ipairs(checked) do
  local at = #reply
  reply[at + 1], reply[at + 2], reply[at + 3] = fence.closed, fence.beat, fence.lostMs
  reply[at + 4] = fence.isForgotten and 1 or 0
end
for at = 1, #reply do reply[at] = math.max(-MAX_ANSWER, math.min(reply[at], MAX_ANSWER)) end
return reply
