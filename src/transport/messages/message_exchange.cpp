#include "transport/messages/message_exchange.hpp"

#include "mesh/fail_together.hpp"
#include "transport/prepared_exchange.hpp"

namespace evenkeel {

MessageTraffic exchange_messages(const Communicator& comm, const std::vector<BlockList>& sends,
                                 const std::vector<BlockList>& receives, const TransportSettings& options,
                                 const std::optional<ErrorReport>& error) {
  PreparedExchange exchange(comm, sends, receives, options, error.has_value());
  exchange.agree(error);
  const MessageTraffic traffic = exchange.run();
  // Also tells every owner that its neighbours have fetched what they need.
  if (exchange.is_read_by_others()) fail_together(comm, exchange.error());
  return traffic;
}

}  // namespace evenkeel
