#pragma once

#include <cstdint>

/// Lua scripts, which Redis runs atomically. KEYS are the members of RedisKeys, in order: lease, about,
/// bodies, events, seen, notes. ARGV[1] is the value of the lease. A list argument is one string that
/// contains, for each item, its length as 4 little-endian bytes, followed by its bytes.
namespace evenkeel::redis_scripts {

/// Bytes of memory that Redis uses for a record's key and hash table entry.
inline constexpr std::int64_t fixed_cost = 128;
inline constexpr std::int64_t string_overhead = 10;
/// Bytes of memory for a slot of seen keys (stream::SeenSlot). A finished sample needs at most two slots,
/// whose cost is already included in the cost of the sample's event.
inline constexpr std::int64_t slot_cost = 100;
inline constexpr std::int64_t slots_of_event = 2;

/// Returns the memory that Redis uses for a record of `bytes` bytes, rounded up to a size class of jemalloc:
/// a multiple of an eighth of the next power of two.
[[nodiscard]] constexpr std::int64_t cost_of_record(std::int64_t bytes) noexcept {
  const std::int64_t size = bytes + string_overhead;
  std::int64_t step = 16;
  while (step * 8 < size) step *= 2;
  return (size + step - 1) / step * step + fixed_cost;
}

/// Opens the store; initializes it with the format ARGV[2] if it is empty. Returns 'lease' if this server
/// does not hold the lease, or 'foreign' if the keys hold data that is not a store. Otherwise, returns the
/// store's format, the number of commits, and the number of bytes in use.
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

/// Commits one change and renews the lease. The arguments are:
/// - ARGV[2]: the number of commits that this server knows;
/// - ARGV[3]: the time in milliseconds for which the lease is renewed;
/// - ARGV[4]: the list of erased numbers;
/// - ARGV[5], ARGV[6] and ARGV[7]: events, seen keys and notes, each as a list of alternating keys and
///   records;
/// - ARGV[8]: the list of the bodies' numbers;
/// - ARGV[9] and later: the bodies' records.
///
/// Returns 'lease' if this server does not hold the lease, and 'commits' if the store has a different number
/// of commits than ARGV[2]. Otherwise, returns the number of bytes in use.
///
/// If Redis is out of memory, it refuses a script whose first write command may need memory; later commands
/// are not checked. A script with bodies writes a body first, so Redis refuses it. A script without bodies,
/// such as one that records a trained step, may free memory and must not be refused, so it begins with HDEL,
/// which does not need memory.
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
