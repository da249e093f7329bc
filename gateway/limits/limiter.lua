-- The limiter's one script. All state of a tenant is behind keys with the hash tag {tenant}, so that one call
-- sees all its descriptors at once; the time is the server's, so that gateways need no common clock.
--
-- KEYS[1]        the tenant's open calls: a sorted set of call ids by lease expiry (µs). It makes each
--                operation on a call happen once, whatever is sent twice.
-- KEYS[1 + i]    the state of descriptor i
-- ARGV[1]        operation: consume, peek (consume nothing, whatever the answer), close or renew
-- ARGV[2]        lease, µs
-- all but renew: ARGV[3] the call id, then for each descriptor five values:
--     kind       B requests bucket · T tokens bucket, may go into debt · D requests of a day · C open calls
--     size       B, T: capacity · D, C: limit
--     rate       B, T: units per µs · D, C: unused
--     amount     consume, peek: what the call takes · close: what it gets back (negative: what it still owes)
--     day        D only, close: the day that was counted, so that nothing is given back to another day
-- renew: KEYS[1] a set of leases (open calls or C), ARGV[3…] call ids
--
-- consume answers {refused descriptor or 0, wait µs, day, level 1, reset 1 (µs), level 2, …}; levels are floored
-- and may be negative (debt), waits are rounded up. close answers 1 if the call was open, else 0.

local op, lease = ARGV[1], tonumber(ARGV[2])
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
local DAY = 86400000000
local day = math.floor(now / DAY)
local SLACK_MS = 60000

local function touch_leases(key)
  redis.call('PEXPIRE', key, math.ceil(lease / 1000) + SLACK_MS)
end

local function open_leases(key)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', '(' .. string.format('%.0f', now))
  return redis.call('ZCARD', key)
end

local function add_lease(key, id)
  redis.call('ZADD', key, string.format('%.0f', now + lease), id)
end

local function bucket_level(key, size, rate)
  local state = redis.call('HMGET', key, 'level', 'at')
  if not state[1] then return size end
  local elapsed = math.max(0, now - tonumber(state[2]))
  return math.min(size, tonumber(state[1]) + elapsed * rate)
end

local function store_bucket(key, level, size, rate)
  redis.call('HSET', key, 'level', string.format('%.17g', level), 'at', string.format('%.0f', now))
  local full_ms = rate > 0 and (size - level) / rate / 1000 or DAY / 1000
  redis.call('PEXPIRE', key, string.format('%.0f', math.min(full_ms, 7 * DAY / 1000) + SLACK_MS))
end

local function day_count(key)
  local state = redis.call('HMGET', key, 'day', 'count')
  if tonumber(state[1] or -1) ~= day then return 0 end
  return tonumber(state[2])
end

local function store_day(key, count)
  redis.call('HSET', key, 'day', string.format('%.0f', day), 'count', string.format('%.0f', count))
  redis.call('PEXPIRE', key, math.ceil(((day + 1) * DAY - now) / 1000) + SLACK_MS)
end

if op == 'renew' then
  for i = 3, #ARGV do add_lease(KEYS[1], ARGV[i]) end
  touch_leases(KEYS[1])
  return open_leases(KEYS[1])
end

local id = ARGV[3]
local calls = {}
for i = 2, #KEYS do
  local a = 4 + (i - 2) * 5
  calls[#calls + 1] = {
    key = KEYS[i], kind = ARGV[a], size = tonumber(ARGV[a + 1]), rate = tonumber(ARGV[a + 2]),
    amount = tonumber(ARGV[a + 3]), day = tonumber(ARGV[a + 4]),
  }
end

if op == 'close' then
  if redis.call('ZREM', KEYS[1], id) == 0 then return 0 end
  for _, c in ipairs(calls) do
    if c.kind == 'C' then
      redis.call('ZREM', c.key, id)
    elseif c.kind == 'D' then
      if c.day == day and c.amount > 0 then store_day(c.key, math.max(0, day_count(c.key) - c.amount)) end
    elseif c.amount ~= 0 then
      store_bucket(c.key, math.min(c.size, bucket_level(c.key, c.size, c.rate) + c.amount), c.size, c.rate)
    end
  end
  return 1
end

open_leases(KEYS[1])
local again = op == 'peek' or redis.call('ZSCORE', KEYS[1], id)
local refused, wait = 0, -1
for i, c in ipairs(calls) do
  local short = nil
  if c.kind == 'C' then
    c.level = c.size - open_leases(c.key)
    if c.level < 1 then short = 0 end
  elseif c.kind == 'D' then
    c.level = c.size - day_count(c.key)
    if c.level < c.amount then short = (day + 1) * DAY - now end
  else
    c.level = bucket_level(c.key, c.size, c.rate)
    if c.kind == 'B' and c.level < c.amount then short = (c.amount - c.level) / c.rate end
    if c.kind == 'T' and c.level <= 0 then short = -c.level / c.rate + 1 end
  end
  if short and short > wait then refused, wait = i, short end
end

if again then refused = 0 end
local answer = { refused, math.ceil(math.max(0, wait)), day }
if refused == 0 and not again then
  add_lease(KEYS[1], id)
  touch_leases(KEYS[1])
end
for _, c in ipairs(calls) do
  if refused == 0 and not again then
    c.level = c.level - c.amount
    if c.kind == 'C' then
      add_lease(c.key, id)
      touch_leases(c.key)
    elseif c.kind == 'D' then
      store_day(c.key, c.size - c.level)
    else
      store_bucket(c.key, c.level, c.size, c.rate)
    end
  end
  answer[#answer + 1] = math.floor(c.level)
  if c.kind == 'D' then
    answer[#answer + 1] = (day + 1) * DAY - now
  elseif c.kind == 'C' then
    answer[#answer + 1] = 0
  else
    answer[#answer + 1] = math.ceil((c.size - c.level) / c.rate)
  end
end
return answer
