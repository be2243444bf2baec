// #region connect
import { Client } from '@modelcontextprotocol/client';
import { StreamableClientTransport } from 'nestjs-mcp-streamable/client';

const client = new Client({ name: 'purchasing', version: '1.0.0' });
const transport = new StreamableClientTransport('https://orders.example.com/mcp');

export const connect = (): Promise<void> => client.connect(transport);
// #endregion

export function observe(log: (text: string) => void): void {
  // #region observe
  transport.state$.subscribe(({ is }) => log(`The connection is ${is}.`));
  transport.reconnects$.subscribe(({ kind, failures, delayMs }) => {
    log(`Attempt ${failures + 1} (${kind}) in ${delayMs} ms.`);
  });
  transport.recoveries$.subscribe((event) => {
    if (event.outcome === 'recovered')
      log('A new session: subscribe to resources and set the log level again.');
  });
  // #endregion
}

/** For a service on an unreliable network whose tools may all run twice. */
export const patient =
  // #region recover
  new StreamableClientTransport('https://orders.example.com/mcp', {
    recover: true,
    replay: 'always',
    reconnect: { firstDelayMs: 200, maxDelayMs: 10_000, maxAttempts: 20 },
  });
// #endregion
