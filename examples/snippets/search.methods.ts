// #region method
import { Injectable } from '@nestjs/common';
import { McpArgs, type McpContext, McpCtx, McpMethod } from 'nestjs-mcp-streamable';
import { z } from 'zod';

const Query = z.object({
  text: z.string().min(1),
  limit: z.number().int().max(50).default(10),
});

const BOOKS = ['Tea and its leaves', 'A history of tea', 'Coffee'];

@Injectable()
export class SearchMethods {
  @McpMethod('acme/search', Query, { extension: 'com.acme/search' })
  search(
    @McpArgs() { text, limit }: z.infer<typeof Query>,
    @McpCtx() ctx: McpContext,
  ): object {
    const { ranked } = ctx.clientSupports('com.acme/search') ?? {};
    const hits = BOOKS.filter((title) =>
      title.toLowerCase().includes(text.toLowerCase()),
    ).slice(0, limit);
    return { hits: ranked === true ? hits.toSorted() : hits };
  }
}
// #endregion
