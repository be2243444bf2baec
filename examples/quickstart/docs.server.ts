import {
  type CallToolResult,
  McpServer,
  type ReadResourceResult,
  ResourceNotFoundError,
  ResourceTemplate,
  type ServerContext,
} from '@modelcontextprotocol/server';
import { Inject, Injectable } from '@nestjs/common';
import { z } from 'zod';
import { DocsWatcher } from './docs-watcher.service.js';
import { registerQuestions } from './docs.questions.js';
import { text, uriOf } from './docs.results.js';
import { DocsService } from './docs.service.js';

export const SERVER_INFO = { name: 'quickstart-docs', version: '1.0.0' };

const INSTRUCTIONS = 'Serves Markdown documents. Search them first, then read what was found.';
const MARKDOWN = { mimeType: 'text/markdown' };

/** Makes the MCP server of a session: documents as resources, and tools that read, search and watch them. */
@Injectable()
export class DocsServer {
  constructor(
    @Inject(DocsService) private readonly docs: DocsService,
    @Inject(DocsWatcher) private readonly watcher: DocsWatcher,
  ) {}

  create(sessionId: string): McpServer {
    const server = new McpServer(SERVER_INFO, { instructions: INSTRUCTIONS });
    this.#registerResources(server);
    this.#registerTools(server, sessionId);
    registerQuestions(server, this.docs);
    return server;
  }

  #registerResources(server: McpServer): void {
    const list = async (): Promise<{ resources: { uri: string; name: string; mimeType: string }[] }> => ({
      resources: (await this.docs.list()).map(({ name }) => ({ uri: uriOf(name), name, ...MARKDOWN })),
    });
    const template = new ResourceTemplate('docs:///{+name}', { list });
    server.registerResource('document', template, { title: 'A document', ...MARKDOWN }, (uri) => this.#read(uri));
  }

  #registerTools(server: McpServer, sessionId: string): void {
    server.registerTool(
      'search_docs',
      {
        description: 'Finds the lines of all documents that contain a text',
        inputSchema: z.object({ query: z.string().min(1), limit: z.int().positive().default(20) }),
      },
      ({ query, limit }, ctx) => this.#search(query, limit, ctx),
    );
    server.registerTool(
      'read_doc',
      { description: 'Reads a document', inputSchema: z.object({ name: z.string() }) },
      async ({ name }) => text(await this.docs.read(name)),
    );
    server.registerTool('watch_docs', { description: 'Notifies this session of documents that change' }, () => {
      this.watcher.listeners.add(sessionId);
      return text('Changes will be notified until the session ends.');
    });
  }

  async #read(uri: URL): Promise<ReadResourceResult> {
    try {
      const content = await this.docs.read(decodeURIComponent(uri.pathname.slice(1)));
      return { contents: [{ uri: uri.href, ...MARKDOWN, text: content }] };
    } catch {
      throw new ResourceNotFoundError(uri.href);
    }
  }

  async #search(query: string, limit: number, { mcpReq }: ServerContext): Promise<CallToolResult> {
    const found: string[] = [];
    const progressToken = mcpReq._meta?.progressToken;
    for await (const { name, matches, done, total } of this.docs.search(query, mcpReq.signal)) {
      found.push(...matches);
      if (progressToken !== undefined) {
        const params = { progressToken, progress: done, total, message: name };
        await mcpReq.notify({ method: 'notifications/progress', params });
      }
      if (found.length >= limit) break;
    }
    return text(found.slice(0, limit).join('\n') || 'Nothing found.');
  }
}
