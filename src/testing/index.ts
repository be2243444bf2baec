export type { ContractTestApi } from './contract.js';
export { eventStoreContract } from './event-store.contract.js';
export type { EventStoreHarness, EventStoreLimits } from './event-store.contract.support.js';
export { ManualClock } from './manual-clock.js';
export { messageBusContract, type MessageBusHarness } from './message-bus.contract.js';
export { sessionStoreContract, type SessionStoreHarness } from './session-store.contract.js';
export { stateStoreContract, type StateStoreHarness } from './state-store.contract.js';
