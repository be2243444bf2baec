import { delayMs, pause } from './backoff.js';
import type { ReconnectEvent } from './client-state.js';
import type { ExchangeHost } from './exchange-host.js';

/** Announces another attempt, and waits for its time. @throws (rejects) the reason of the signal */
export async function waitToRetry(
  { options, reconnecting }: Pick<ExchangeHost, 'options' | 'reconnecting'>,
  event: Omit<ReconnectEvent, 'delayMs'>,
  askedMs: number | undefined,
  signal: AbortSignal,
): Promise<void> {
  const ms = delayMs(options.reconnect, event.failures, askedMs, options.random);
  reconnecting({ ...event, delayMs: ms });
  await pause(ms, options.clock, signal);
}
