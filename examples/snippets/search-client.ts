// #region client
import { Client } from '@modelcontextprotocol/client';
import { z } from 'zod';

export const client = new Client(
  { name: 'shelf', version: '1.0.0' },
  { capabilities: { extensions: { 'com.acme/search': { ranked: true } } } },
);

export async function search(text: string): Promise<string[]> {
  const { hits } = await client.request(
    { method: 'acme/search', params: { text } },
    z.object({ hits: z.string().array() }),
  );
  return hits;
}
// #endregion
