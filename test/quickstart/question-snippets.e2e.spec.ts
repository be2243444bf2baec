import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { afterEach, describe, expect, it } from 'vitest';
import { AppModule } from '../../examples/snippets/questions-app.js';
import { Rooms } from '../../examples/snippets/rooms.service.js';
import { ONE_ADAPTER } from '../support/adapters.js';
import { call, closeOpened, start, urlOf } from './snippet-apps.js';

const clients: Client[] = [];
afterEach(async () => {
  for (const client of clients.splice(0)) await client.close();
  await closeOpened();
});

const ANSWERS: [asked: RegExp, content: Record<string, string | number>][] = [
  [/for whom/, { name: 'Ann' }],
  [/Where to/, { city: 'Paris' }],
  [/1 of 3/, { city: 'Paris' }],
  [/2 of 3/, { city: 'Rome' }],
  [/floor/, { floor: 3 }],
];

async function connect(url: string, mode: 'auto' | 'legacy', capabilities: object): Promise<Client> {
  const client = new Client({ name: 'asked', version: '1.0.0' }, { capabilities, versionNegotiation: { mode } });
  clients.push(client);
  if ('elicitation' in capabilities) {
    client.setRequestHandler('elicitation/create', ({ params }) => {
      const [, content] = ANSWERS.find(([asked]) => asked.test(params.message))!;
      return { action: 'accept', content };
    });
  }
  if ('sampling' in capabilities) {
    const content = { type: 'text' as const, text: 'a tower' };
    client.setRequestHandler('sampling/createMessage', () => ({ role: 'assistant', model: 'm', content }));
  }
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  return client;
}

describe.each(ONE_ADAPTER)('the code of the guide to questions, on %s', (adapter) => {
  describe.each(['auto', 'legacy'] as const)('to a client in mode "%s"', (mode) => {
    const ALL = { elicitation: { form: {} }, sampling: {} };

    it('the code of the guide to questions does once what the questions must not repeat', async () => {
      const app = await start(AppModule, adapter);
      const client = await connect(await urlOf(app), mode, ALL);
      expect(await call(client, 'book_room', { city: 'Rome' })).toBe('room-1 is booked for Ann.');
      expect(app.get(Rooms).reserved).toEqual(['Rome']);
    });

    it('the code of the guide to questions asks several at once, again, and by hand', async () => {
      const client = await connect(await urlOf(await start(AppModule, adapter)), mode, ALL);
      expect(await call(client, 'plan_trip')).toBe('Go to Paris and see a tower.');
      expect(await call(client, 'guess_city')).toBe('Right.');
      expect(await call(client, 'choose_floor')).toMatch(/^Floor 3, asked at 20\d\d-.*Z\.$/);
    });

    it('the code of the guide to questions looks at what the client can do', async () => {
      const url = await urlOf(await start(AppModule, adapter));
      expect(await call(await connect(url, mode, ALL), 'describe_room')).toBe('a tower');
      expect(await call(await connect(url, mode, {}), 'describe_room')).toBe('A room with a view.');
    });
  });
});
