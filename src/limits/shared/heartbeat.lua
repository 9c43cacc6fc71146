-- Records a node's heartbeat. KEYS: the sorted set of nodes, scored by the time of their last heartbeat in ms.
-- ARGV: node; ms without a heartbeat after which a node is dead. Replies Redis's time in ms, then the nodes alive.

local time = redis.call('TIME')
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
if redis.call('TYPE', KEYS[1]).ok ~= 'zset' then redis.call('DEL', KEYS[1]) end
redis.call('ZADD', KEYS[1], nowMs, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', nowMs - ARGV[2])
-- Where Redis's clock was set back, older heartbeats lie in the future.
redis.call('ZREMRANGEBYSCORE', KEYS[1], nowMs + ARGV[2], '+inf')
local reply = redis.call('ZRANGE', KEYS[1], 0, -1)
table.insert(reply, 1, nowMs)
return reply
