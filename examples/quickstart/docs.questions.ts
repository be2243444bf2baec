import { acceptedContent, inputRequired, inputResponse, type McpServer } from '@modelcontextprotocol/server';
import { z } from 'zod';
import { text } from './docs.results.js';
import type { DocsService } from './docs.service.js';

const Choice = z.object({ name: z.string().describe('Such as README.md') });

/**
 * Tools that ask the client: its user (elicitation), or its model (sampling). A handler returns its question and is called
 * again with the answer; the question travels on the stream of the call.
 */
export function registerQuestions(server: McpServer, docs: DocsService): void {
  server.registerTool(
    'choose_doc',
    { description: 'Lets the user choose a document, and reads it' },
    async ({ mcpReq: { inputResponses } }) => {
      const answer = inputResponse(inputResponses, 'choice');
      const choice = acceptedContent(inputResponses, 'choice', Choice);
      if (choice) return text(await docs.read(choice.name));
      if (answer.kind === 'elicit' && answer.action !== 'accept') return text('Nothing was chosen.');
      const names = (await docs.list()).map(({ name }) => name);
      const message = `Which document? There are: ${names.join(', ')}`;
      return inputRequired({
        inputRequests: { choice: inputRequired.elicit({ message, requestedSchema: Choice }) },
      });
    },
  );
  server.registerTool(
    'summarize_doc',
    { description: "Has the client's model summarize a document", inputSchema: z.object({ name: z.string() }) },
    async ({ name }, { mcpReq: { inputResponses } }) => {
      const answer = inputResponse(inputResponses, 'summary');
      if (answer.kind === 'sampling') {
        const block = [answer.result.content].flat().find(({ type }) => type === 'text');
        return text(block?.type === 'text' ? block.text : 'The model gave no text.');
      }
      const prompt = `Summarize in two sentences:\n\n${await docs.read(name)}`;
      const messages = [{ role: 'user' as const, content: { type: 'text' as const, text: prompt } }];
      return inputRequired({
        inputRequests: { summary: inputRequired.createMessage({ messages, maxTokens: 500 }) },
      });
    },
  );
}
