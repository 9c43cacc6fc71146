-- Puts what the audit has counted in the place of the minutes that it has closed.
--
-- KEYS: the partition's fence, then the hash of each app.
-- ARGV: time of the last message read in us and last minute closed, of the auditor; whether the fence is set too (1 or
-- 0); then for each app its base without these two, and its totals by day.
-- An auditor that has read less than the one before it changes nothing. Replies how many apps it changed.

local readUs, minute = tonumber(ARGV[1]), tonumber(ARGV[2])
-- A minute that lies further ahead was written by no audit.
local MOST_AHEAD = 1440

-- `rest`: what follows the place and the minute. A text of any other form is taken to be absent.
local function isNewer(text, rest)
  local us, closed = string.match(text or '', '^(%d+) (%d+)' .. rest .. '$')
  if not us then return true end
  us, closed = tonumber(us), tonumber(closed)
  if closed > minute + MOST_AHEAD then return true end
  return readUs > us or (readUs == us and minute >= closed)
end

local changed = 0
for at = 2, #KEYS do
  local counts, arg = KEYS[at], 4 + (at - 2) * 2
  local base = redis.pcall('HGET', counts, 'base')
  -- What is no hash was written by no script of ours, and would stop all apps of the call.
  if type(base) == 'table' then base = redis.call('DEL', counts) and nil end
  if isNewer(base, ' %d+ %d+ %d+ %d+ %d+') then
    redis.call('HSET', counts, 'base', ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. ARGV[arg], 'days', ARGV[arg + 1])
    for _, name in ipairs(redis.call('HKEYS', counts)) do
      local opened = string.match(name, '^[mx](%d+)$')
      if opened and tonumber(opened) <= minute then redis.call('HDEL', counts, name) end
    end
    redis.call('EXPIRE', counts, 40 * 86400)
    changed = changed + 1
  end
end
local fence = redis.pcall('GET', KEYS[1])
if ARGV[3] == '1' and isNewer(type(fence) == 'string' and fence, '') then
  redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[2])
end
return changed
