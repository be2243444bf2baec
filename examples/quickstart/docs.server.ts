import {
  acceptedContent,
  type CallToolResult,
  inputRequired,
  inputResponse,
  McpServer,
  type ReadResourceResult,
  ResourceNotFoundError,
  ResourceTemplate,
  type ServerContext,
} from '@modelcontextprotocol/server';
import { Injectable } from '@nestjs/common';
import { z } from 'zod';
import { DocsWatcher } from './docs-watcher.service.js';
import { DocsService } from './docs.service.js';

export const SERVER_INFO = { name: 'quickstart-docs', version: '1.0.0' };

const MARKDOWN = { mimeType: 'text/markdown' };
const Choice = z.object({ name: z.string().describe('Such as README.md') });

/** The URI of a document. */
export const uriOf = (name: string): string => `docs:///${name.split('/').map(encodeURIComponent).join('/')}`;

/** Makes the MCP server of a session: documents as resources, and tools that read, search and watch them. */
@Injectable()
export class DocsServer {
  constructor(
    private readonly docs: DocsService,
    private readonly watcher: DocsWatcher,
  ) {}

  create(sessionId: string): McpServer {
    const server = new McpServer(SERVER_INFO, { instructions: 'Serves Markdown documents. Search first, then read.' });
    const template = new ResourceTemplate('docs:///{+name}', { list: () => this.#list() });
    server.registerResource('document', template, { title: 'A document', ...MARKDOWN }, (uri) => this.#read(uri));

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
    server.registerTool('watch_docs', { description: 'Notifies this session when documents change' }, () => {
      this.watcher.listeners.add(sessionId);
      return text('Changes will be notified for as long as this session lasts.');
    });
    // Tools that ask back return what they ask; they are called again with the answers.
    server.registerTool('choose_doc', { description: 'Lets the user choose a document, and reads it' }, async (ctx) => {
      const answer = inputResponse(ctx.mcpReq.inputResponses, 'choice');
      if (answer.kind === 'elicit' && answer.action !== 'accept') return text('Nothing was chosen.');
      const choice = acceptedContent(ctx.mcpReq.inputResponses, 'choice', Choice);
      if (choice) return text(await this.docs.read(choice.name));
      const question = { message: 'Which document?', requestedSchema: Choice };
      return inputRequired({ inputRequests: { choice: inputRequired.elicit(question) } });
    });
    server.registerTool(
      'summarize_doc',
      { description: "Has the client's model summarize a document", inputSchema: z.object({ name: z.string() }) },
      async ({ name }, ctx) => {
        const answer = inputResponse(ctx.mcpReq.inputResponses, 'summary');
        if (answer.kind === 'sampling') return { content: [answer.result.content].flat() };
        const content = { type: 'text' as const, text: `Summarize in two sentences:\n\n${await this.docs.read(name)}` };
        const question = { messages: [{ role: 'user' as const, content }], maxTokens: 500 };
        return inputRequired({ inputRequests: { summary: inputRequired.createMessage(question) } });
      },
    );
    return server;
  }

  async #list(): Promise<{ resources: { uri: string; name: string; mimeType: string }[] }> {
    const docs = await this.docs.list();
    return { resources: docs.map(({ name }) => ({ uri: uriOf(name), name, ...MARKDOWN })) };
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

function text(content: string): CallToolResult {
  return { content: [{ type: 'text', text: content }] };
}
