import { loadSdk } from '../../src/core/protocol/spec.js';

/** A specification of one class makes no endpoint, which would load the SDK's tools. */
await loadSdk();
