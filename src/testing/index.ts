/** @module nestjs-mcp-streamable/testing */

export type { McpContractTestApi } from './contract.js';
export { eventStoreContract } from './event-store.contract.js';
export type { McpEventStoreHarness, McpEventStoreLimits } from './event-store.contract.support.js';
export { ManualClock } from './manual-clock.js';
export { messageBusContract, type McpMessageBusHarness } from './message-bus.contract.js';
export { sessionStoreContract, type McpSessionStoreHarness } from './session-store.contract.js';
export { taskStoreContract, type McpTaskStoreHarness } from './task-store.contract.js';
export { stateStoreContract, type McpStateStoreHarness } from './state-store.contract.js';
export { McpAppAgent, type McpAppFetch } from './kit/app-agent.js';
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
export { diagnose, expectHealthy, type McpDiagnoseOptions } from './kit/diagnose.js';
export type { McpDiagnosis, McpDoctorRule, McpFinding } from '../doctor/diagnosis.js';
export { expectContract, type McpContractOptions } from './lock/expect-contract.js';
export {
  toolRouting,
  type McpRoutingCase,
  type McpRoutingModel,
  type McpRoutingOptions,
  type McpRoutingReport,
} from './kit/tool-routing.js';
export { refusalOf, type McpTestRefusal } from './kit/refusals.js';
export type { McpRawAnswer, McpRawMessage } from './kit/raw-message.js';
export { McpTestAuth, mintTestToken, type McpTestTokenOptions } from './kit/test-tokens.js';
