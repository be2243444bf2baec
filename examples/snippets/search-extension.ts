// #region method
import { Injectable } from '@nestjs/common';
import { McpArgs, type McpContext, McpCtx, McpMethod } from 'nestjs-mcp-streamable';
import { z } from 'zod';

const Query = z.object({ text: z.string().min(1), limit: z.number().int().max(50).default(10) });

const BOOKS = ['Tea and its leaves', 'A history of tea', 'Coffee'];

@Injectable()
export class SearchMethods {
  @McpMethod('acme/search', Query, { extension: 'com.acme/search' })
  search(@McpArgs() { text, limit }: z.infer<typeof Query>, @McpCtx() ctx: McpContext): object {
    const { ranked } = ctx.clientSupports('com.acme/search') ?? {};
    const hits = BOOKS.filter((title) => title.toLowerCase().includes(text.toLowerCase())).slice(0, limit);
    return { hits: ranked === true ? hits.toSorted() : hits };
  }
}
// #endregion

// #region module
import { Module } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';

@Module({
  imports: [
    McpStreamableModule.forRoot({
      serverInfo: { name: 'library', version: '1.0.0' },
      extensions: { 'com.acme/search': { languages: ['en'] } },
    }),
  ],
  providers: [SearchMethods],
})
export class AppModule {}
// #endregion

// #region client
import { Client } from '@modelcontextprotocol/client';

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
