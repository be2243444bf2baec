// The official client, which finds its way from a 401 to a token by itself, and to a wider one when a tool needs it.
import {
  Client,
  StreamableHTTPClientTransport,
  UnauthorizedError,
} from '@modelcontextprotocol/client';
import { UserWithoutBrowser } from './user.js';

/** Runs something; where it needs the user's consent, gets that and runs it again. */
async function authorized<T>(
  user: UserWithoutBrowser,
  transport: StreamableHTTPClientTransport,
  run: () => Promise<T>,
) {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error;
    await transport.finishAuth(user.takeCallback());
    return run();
  }
}

/** @returns what the server said to each step */
export async function goThrough(url: string): Promise<string[]> {
  const user = new UserWithoutBrowser();
  const lines: string[] = [];
  const open = () => ({
    client: new Client({ name: 'example', version: '1.0.0' }),
    transport: new StreamableHTTPClientTransport(new URL(url), { authProvider: user }),
  });
  let { client, transport } = open();
  await authorized(user, transport, async () => {
    if (user.tokens()) ({ client, transport } = open());
    await client.connect(transport);
  });
  try {
    const say = (result: object): void => {
      const { content } = result as { content: { text: string }[] };
      lines.push(`${content[0]!.text} (scopes: ${user.tokens()!.scope})`);
    };
    say(await client.callTool({ name: 'list_notes' }));
    const add = { name: 'add_note', arguments: { text: 'Buy milk' } };
    say(await authorized(user, transport, () => client.callTool(add)));
    say(await client.callTool({ name: 'list_notes' }));
  } finally {
    await client.close();
  }
  return lines;
}

const [, script, url = 'http://127.0.0.1:3000/mcp'] = process.argv;
if (script?.endsWith('client.js')) console.log((await goThrough(url)).join('\n'));
