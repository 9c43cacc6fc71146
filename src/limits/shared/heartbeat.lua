-- Records a node's heartbeat. KEYS: the sorted set of nodes, scored by the time of their last heartbeat in ms.
-- ARGV: node; ms without a heartbeat after which a node is dead. Replies Redis's time in ms, the time of this node's
-- heartbeat before (0: not on the list), then the nodes alive.

local time = redis.call('TIME')
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
if redis.call('TYPE', KEYS[1]).ok ~= 'zset' then redis.call('DEL', KEYS[1]) end
local before = redis.call('ZSCORE', KEYS[1], ARGV[1])
redis.call('ZADD', KEYS[1], nowMs, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', nowMs - ARGV[2])
-- Where Redis's clock was set back, older heartbeats lie in the future.
redis.call('ZREMRANGEBYSCORE', KEYS[1], nowMs + ARGV[2], '+inf')
local reply = redis.call('ZRANGE', KEYS[1], 0, -1)
table.insert(reply, 1, nowMs)
table.insert(reply, 2, tonumber(before or 0))
return reply
