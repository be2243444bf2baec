export type { ContractTestApi } from './contract.js';
export { eventStoreContract } from './event-store.contract.js';
export type { EventStoreHarness, EventStoreLimits } from './event-store.contract.support.js';
export { ManualClock } from './manual-clock.js';
export { messageBusContract, type MessageBusHarness } from './message-bus.contract.js';
export { sessionStoreContract, type SessionStoreHarness } from './session-store.contract.js';
export { taskStoreContract, type TaskStoreHarness } from './task-store.contract.js';
export { stateStoreContract, type StateStoreHarness } from './state-store.contract.js';
export { AppAgent, type AppFetch } from './kit/app-agent.js';
export { expectNothingLeft, type McpLeftovers } from './kit/leftovers.js';
export {
  createAppFetch,
  createMcpTestClient,
  type McpCallOptions,
  McpTestClient,
  type McpTestClientOptions,
  type McpTestNotification,
  type McpToolCallResult,
} from './kit/mcp-test-client.js';
export { refusalOf, type McpRefusal } from './kit/refusals.js';
export type { McpRawAnswer, McpRawMessage } from './kit/raw-message.js';
export { McpTestAuth, mintTestToken, type TestTokenOptions } from './kit/test-tokens.js';
