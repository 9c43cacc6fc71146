-- Counts in Redis what a node has in its spool: for each app in a field of that node's own, `s:<spool>`, which every take adds. The
-- events are taken out of the counters of their minutes in the same step, since the audit closes these without them.
--
-- ARGV[1]: one JSON array: spool, node, then for each app (KEYS: its hash):
--   what its field says: minute, events of this minute, then count and pairs of a cycle's first minute and events, then count and
--   pairs of a day and events; nothing of it where the spool has none (count of cycles 0)
--   moves: count, then for each: minute, events
--   1 to remove the counters of minutes long past that are at 0, else 0
-- Reply: Redis's time in ms.
-- The field: `<Redis's time in ms> <minute> <events> <cycle>:<events>[,…] <day>:<events>[,…]`. `s` names the spools, with blanks between.

local asked = cjson.decode(ARGV[1])
local spool, node = asked[1], asked[2]
local at = 2
local time = redis.call('TIME')
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
-- In minutes. What Redis has acknowledged of younger ones is counted again where it is lost (take.lua).
local OLD = 5

local function nextNumber()
  at = at + 1
  return asked[at]
end

local function pairsText()
  local texts = {}
  for count = 1, nextNumber() do
    local name = nextNumber()
    texts[count] = string.format('%.0f:%.0f', name, nextNumber())
  end
  return table.concat(texts, ',')
end

local function readNames(counts)
  local names, has = {}, false
  local text = redis.call('HGET', counts, 's') or ''
  for name in string.gmatch(text, '%S+') do
    if name == spool then has = true end
    names[#names + 1] = name
  end
  return names, has
end

local function removeName(counts)
  local names, left = readNames(counts), {}
  for _, name in ipairs(names) do
    if name ~= spool then left[#left + 1] = name end
  end
  redis.call('HDEL', counts, 's:' .. spool)
  if #left == 0 then redis.call('HDEL', counts, 's')
  else redis.call('HSET', counts, 's', table.concat(left, ' ')) end
end

-- The fence may stand still for hours, and each minute would leave its counters.
local function tidy(counts)
  local latest = math.floor(nowMs / 60000) - OLD
  local gone = {}
  local fields = redis.call('HGETALL', counts)
  for place = 1, #fields, 2 do
    local minute = tonumber(string.match(fields[place], '^m(%d+)$'))
    if minute and minute < latest and tonumber(fields[place + 1]) == 0 then gone[minute] = true end
  end
  for place = 1, #fields, 2 do
    local minute = tonumber(string.match(fields[place], '^[mn](%d+)'))
    if minute and gone[minute] then redis.call('HDEL', counts, fields[place]) end
  end
end

for _, counts in ipairs(KEYS) do
  local kind = redis.call('TYPE', counts).ok
  if kind ~= 'hash' and kind ~= 'none' then redis.call('DEL', counts) end
  local minute, events = nextNumber(), nextNumber()
  local cycles, days = pairsText(), pairsText()
  if cycles == '' then removeName(counts)
  else
    local names, has = readNames(counts)
    if not has then names[#names + 1] = spool end
    local value = string.format('%.0f %.0f %.0f %s %s', nowMs, minute, events, cycles, days)
    redis.call('HSET', counts, 's:' .. spool, value, 's', table.concat(names, ' '))
    redis.call('EXPIRE', counts, 40 * 86400)
  end
  for _ = 1, nextNumber() do
    local moved, sum = nextNumber(), nextNumber()
    local values = redis.call('HMGET', counts, 'm' .. moved, 'n' .. moved .. ':' .. node)
    local open = tonumber(values[1] or nil)
    if open then
      redis.call('HSET', counts, 'm' .. moved, math.max(0, open - sum))
      local taken, given = string.match(values[2] or '', '^(%d+) (%d+)$')
      if taken then
        local back = math.min(tonumber(taken), given + sum)
        redis.call('HSET', counts, 'n' .. moved .. ':' .. node, taken .. ' ' .. string.format('%.0f', back))
      end
    end
  end
  if nextNumber() == 1 then tidy(counts) end
end
return nowMs
