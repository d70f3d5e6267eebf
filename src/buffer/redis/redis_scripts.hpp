#pragma once

#include <cstdint>

/// What Redis does in one piece. KEYS are those of RedisKeys in their order: lease, about, bodies, events,
/// seen, notes; ARGV[1] is the lease's value. Lists are texts: each item's length in 4 bytes, and the item.
namespace evenkeel::redis_scripts {

/// What a record takes of Redis's memory, beside its bytes: its key, and a place in a table. jemalloc has
/// sizes of at least an eighth of their power of two.
inline constexpr std::int64_t fixed_cost = 128;
inline constexpr std::int64_t string_overhead = 10;
/// What a slot of seen keys takes. A sample needs two at most once it is over; its event keeps room for them.
inline constexpr std::int64_t slot_cost = 100;
inline constexpr std::int64_t slots_of_event = 2;

[[nodiscard]] constexpr std::int64_t cost_of_record(std::int64_t bytes) noexcept {
  const std::int64_t size = bytes + string_overhead;
  std::int64_t step = 16;
  while (step * 8 < size) step *= 2;
  return (size + step - 1) / step * step + fixed_cost;
}

/// ARGV[2]: the format. Says what is there: 'lease' if that is another's, 'foreign' if there is something
/// else; or the format, how many commits there were, and the bytes in use.
inline constexpr const char* begin = R"(
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 'lease' end
local format = redis.call('HGET', KEYS[2], 'format')
if not format then
  if redis.call('EXISTS', KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]) > 0 then return 'foreign' end
  format = ARGV[2]
  redis.call('HSET', KEYS[2], 'format', format, 'commits', '0', 'used', '0')
end
return {format, redis.call('HGET', KEYS[2], 'commits'), redis.call('HGET', KEYS[2], 'used')}
)";

/// ARGV: 2 the number of the latest commit, 3 milliseconds that the lease is valid from now on, 4 erased
/// numbers, 5 events, 6 seen keys and 7 notes (a key and a record each), 8 numbers of bodies, and from 9 on
/// their records. Says 'lease', 'commits' if there were others, or the bytes in use.
///
/// Redis refuses the first writing command of a script if it has no memory left, and no later one. So a
/// body comes first, and a script without one begins with what takes no memory: it says that steps are formed
/// or trained, which makes room.
inline constexpr const char* commit = R"(
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 'lease' end
if redis.call('HGET', KEYS[2], 'commits') ~= ARGV[2] then return 'commits' end
local function items(list)
  local found, at = {}, 1
  while at <= #list do
    local item
    item, at = struct.unpack('<I4c0', list, at)
    found[#found + 1] = item
  end
  return found
end
local function cost(bytes)
  local size, step = bytes + 10, 16
  while step * 8 < size do step = step * 2 end
  return math.ceil(size / step) * step + 128
end
local slot_cost = 100
local function cost_of_event(bytes) return cost(bytes) + 2 * slot_cost end
local numbers, used = items(ARGV[8]), 0
if #numbers == 0 then redis.call('HDEL', KEYS[3], '') end
for i, number in ipairs(numbers) do
  redis.call('HSET', KEYS[3], number, ARGV[8 + i])
  used = used + cost(#ARGV[8 + i])
end
local function erase(key, number, cost_of)
  local bytes = redis.call('HSTRLEN', key, number)
  if bytes == 0 then return end
  redis.call('HDEL', key, number)
  used = used - cost_of(bytes)
end
for _, number in ipairs(items(ARGV[4])) do
  erase(KEYS[3], number, cost)
  erase(KEYS[4], number, cost_of_event)
end
local function put(key, list, cost_of)
  local pairs_of = items(list)
  for i = 1, #pairs_of, 2 do
    local is_new = redis.call('HSET', key, pairs_of[i], pairs_of[i + 1])
    used = used + is_new * cost_of(#pairs_of[i + 1])
  end
end
put(KEYS[4], ARGV[5], cost_of_event)
put(KEYS[5], ARGV[6], function() return slot_cost end)
put(KEYS[6], ARGV[7], function() return 0 end)
redis.call('HINCRBY', KEYS[2], 'commits', 1)
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return redis.call('HINCRBY', KEYS[2], 'used', used)
)";

}  // namespace evenkeel::redis_scripts
