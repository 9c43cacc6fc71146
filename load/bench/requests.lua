-- wrk's side of the benchmark: cycles through prepared bodies, for keyed cases with a fresh random
-- Idempotency-Key in each request, and prints what came out as one line of JSON.
-- Arguments: folder of the bodies, number of bodies, "keyed" or "unkeyed", a seed, and an Origin or nothing.

local requests = {}
local heads = {}
local tails = {}
local count = 0
local keyed = false
local nextIndex = 0
local random = math.random
local format = string.format

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("*a")
  file:close()
  return text
end

function init(arguments)
  local folder = arguments[1]
  count = tonumber(arguments[2])
  keyed = arguments[3] == "keyed"
  math.randomseed(tonumber(arguments[4]))
  local origin = arguments[5] and "Origin: " .. arguments[5] .. "\r\n" or ""
  for index = 1, count do
    local body = read(folder .. "/" .. index .. ".json")
    local head = "POST /api/v1/events HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n" .. origin
    local tail = "Content-Length: " .. #body .. "\r\n\r\n" .. body
    if keyed then
      heads[index] = head .. "Idempotency-Key: "
      tails[index] = "\r\n" .. tail
    else
      requests[index] = head .. tail
    end
  end
end

function request()
  nextIndex = nextIndex % count + 1
  if not keyed then
    return requests[nextIndex]
  end
  local key = format(
    "%08x-%04x-4%03x-8%03x-%06x%06x",
    random(0, 0xffffffff), random(0, 0xffff), random(0, 0xfff), random(0, 0xfff), random(0, 0xffffff), random(0, 0xffffff)
  )
  return heads[nextIndex] .. key .. tails[nextIndex]
end

function done(summary, latency)
  local errors = summary.errors
  io.write(format(
    '\nRESULT {"requests":%d,"durationUs":%d,"refused":%d,"broken":%d,"p50Us":%d,"p99Us":%d,"maxUs":%d}\n',
    summary.requests, summary.duration, errors.status,
    errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50), latency:percentile(99), latency.max
  ))
end
