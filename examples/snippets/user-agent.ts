// #region agent
import { Inject, Injectable } from '@nestjs/common';
import {
  type McpListedTool,
  type McpToolCallOptions,
  McpToolCaller,
} from 'nestjs-mcp-streamable';

/** Extend this class with your model: it may use a framework, or the API of a provider. */
export abstract class Model {
  abstract next(
    messages: readonly Message[],
    tools: readonly McpListedTool[],
  ): Promise<Turn>;
}

export type Message = { role: 'user' | 'assistant' | 'tool'; content: string };
export type Turn =
  { text: string } | { call: { name: string; arguments: Record<string, unknown> } };

/**
 * This agent works for one user: it sees the tools that the user may call, and calls
 * them as this user.
 */
@Injectable()
export class UserAgent {
  constructor(
    @Inject(Model) private readonly model: Model,
    @Inject(McpToolCaller) private readonly tools: McpToolCaller,
  ) {}

  async ask(question: string, user: { id: string }): Promise<string> {
    const caller = { principal: user.id, request: { user } };
    const tools = await this.tools.listTools(caller);
    const messages: Message[] = [{ role: 'user', content: question }];
    for (let turns = 0; turns < 10; turns++) {
      const turn = await this.model.next(messages, tools);
      if ('text' in turn) return turn.text;
      const { name, arguments: args } = turn.call;
      // If the model asks for a tool that is not in its list, this throws, as for a
      // client.
      const { content } = await this.tools.callTool(name, args, caller);
      messages.push({ role: 'tool', content: JSON.stringify(content) });
    }
    return 'I could not find out.';
  }
}
// #endregion

// #region frameworks
/** Makes one of the `tools` of OpenAI's chat completions. */
export const forOpenAi = ({ name, description, inputSchema }: McpListedTool) => ({
  type: 'function' as const,
  function: { name, description, parameters: inputSchema },
});

/**
 * Makes the `tools` of the AI SDK. Wrap each in its `tool()` and `jsonSchema()`, as the
 * comment shows. LangChain's `tool()` takes `{ name, description, schema }`.
 */
export const forAiSdk = (
  tools: readonly McpListedTool[],
  caller: McpToolCaller,
  user: McpToolCallOptions,
) =>
  Object.fromEntries(
    tools.map(({ name, description, inputSchema }) => [
      name,
      // tool({ description, inputSchema: jsonSchema(inputSchema), execute })
      {
        description,
        inputSchema,
        execute: async (args: Record<string, unknown>) =>
          caller.callTool(name, args, user),
      },
    ]),
  );
// #endregion
