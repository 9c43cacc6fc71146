-- Reads the events of apps by UTC day: what the audit has counted, and the open minutes. It writes nothing.
-- KEYS: for each app the fence of its partition, and its hash. Reply: for each app `<day>:<events>`, with spaces between them; a day may
-- come several times.

local closedOf, reply = {}, {}

for at = 1, #KEYS, 2 do
  local fence = KEYS[at]
  if not closedOf[fence] then
    local text = redis.pcall('GET', fence)
    closedOf[fence] = tonumber(type(text) == 'string' and string.match(text, '^%d+ (%d+)$') or nil) or 0
  end
  local days = {}
  local fields = redis.pcall('HGETALL', KEYS[at + 1])
  for place = 1, fields.err and 0 or #fields, 2 do
    local name, value = fields[place], fields[place + 1]
    local minute = tonumber(string.match(name, '^m(%d+)$'))
    if name == 'days' then days[#days + 1] = value
    elseif minute and minute > closedOf[fence] and string.match(value, '^%d+$') then
      days[#days + 1] = string.format('%.0f:%s', math.floor(minute / 1440), value)
    end
  end
  reply[#reply + 1] = table.concat(days, ' ')
end
return reply
