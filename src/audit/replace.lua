-- Replaces the counters of closed minutes by the audit's totals.
--
-- KEYS: the partition's fence, how far its last auditor had read, then the hash of each app.
-- ARGV: the auditor's last message read (its time in us) and last minute closed; that message's sequence; 1 to set the fence
-- too, else 0; then for each app its base without the first two numbers, and its totals by day.
-- An auditor that has read less than an earlier one changes nothing. Reply: the number of apps changed; -1: nothing is, since
-- this Redis's clock cannot have passed the auditor's minute.

local readUs, minute = tonumber(ARGV[1]), tonumber(ARGV[2])
-- Minutes in which events can have been taken are at most two ahead of this clock: clocks.ts has the same number. What was
-- closed beyond them is a wrong clock's, or corrupt, and gives way to whoever has closed less.
local time = redis.call('TIME')
local latest = math.floor(time[1] / 60) + 2
if minute > latest then return -1 end

-- Whether this auditor is newer than `text`. `rest`: the pattern after its two numbers. Any other text counts as absent.
local function isNewer(text, rest)
  local us, closed = string.match(text or '', '^(%d+) (%d+)' .. rest .. '$')
  if not us then return true end
  us, closed = tonumber(us), tonumber(closed)
  if closed > latest then return true end
  return readUs > us or (readUs == us and minute >= closed)
end

-- Where the clock of the stream's leader was set back, later messages have no later time: then the sequence decides. The
-- fence has no room for it, since 0.3 reads the fence too.
local last = redis.pcall('GET', KEYS[2])
if type(last) ~= 'string' then last = '' end
local sequence = string.match(last, '^' .. ARGV[1] .. ' ' .. ARGV[2] .. ' (%d+)$')
if sequence and tonumber(sequence) > tonumber(ARGV[3]) then return 0 end
if isNewer(last, ' %d+') then redis.call('SET', KEYS[2], ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. ARGV[3]) end

local changed = 0
for at = 3, #KEYS do
  local counts, arg = KEYS[at], 5 + (at - 3) * 2
  local base = redis.pcall('HGET', counts, 'base')
  -- A key of the wrong type would fail every app of the call.
  if type(base) == 'table' then base = redis.call('DEL', counts) and nil end
  if isNewer(base, ' %d+ %d+ %d+ %d+ %d+') then
    redis.call('HSET', counts, 'base', ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. ARGV[arg], 'days', ARGV[arg + 1])
    for _, name in ipairs(redis.call('HKEYS', counts)) do
      local opened = string.match(name, '^[mnx](%d+)')
      -- The audit has charged the events of an impossible minute already.
      if opened and (tonumber(opened) <= minute or tonumber(opened) > latest) then redis.call('HDEL', counts, name) end
    end
    redis.call('EXPIRE', counts, 40 * 86400)
    changed = changed + 1
  end
end
local fence = redis.pcall('GET', KEYS[1])
if ARGV[4] == '1' and isNewer(type(fence) == 'string' and fence, '') then
  redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[2])
end
return changed
