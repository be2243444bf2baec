// #region assistant
import {
  Body,
  Controller,
  Inject,
  Injectable,
  Post,
  Req,
  UseGuards,
} from '@nestjs/common';
import { McpToolCaller } from 'nestjs-mcp-streamable';
import { type LoggedIn, LoginGuard } from './login.guard.js';
import { type Message, Model } from './user-agent.js';

const MOST_TURNS = 10;
const MOST_CHARACTERS = 20_000;

/** Answers users of the app with the tools of the app. */
@Injectable()
export class Assistant {
  constructor(
    @Inject(Model) private readonly model: Model,
    @Inject(McpToolCaller) private readonly tools: McpToolCaller,
  ) {}

  /** @param user who is logged in: the agent calls tools as this user */
  async ask(question: string, user: LoggedIn['user']): Promise<string> {
    const caller = {
      principal: user.id,
      request: { user },
      // There is no user to ask here, so each question is declined.
      elicit: () => ({ action: 'decline' as const }),
    };
    // A text that a tool returns may give the model orders, so it gets only tools that read.
    const listed = await this.tools.listTools(caller);
    const offered = listed.filter(
      ({ annotations }) => annotations?.readOnlyHint === true,
    );
    const messages: Message[] = [{ role: 'user', content: question }];
    for (let turns = 0; turns < MOST_TURNS; turns++) {
      const turn = await this.model.next(messages, offered);
      if ('text' in turn) return turn.text;
      const { name, arguments: args } = turn.call;
      const isOffered = offered.some((tool) => tool.name === name);
      const content = isOffered
        ? await this.#call(name, args, caller)
        : `There is no tool ${name}.`;
      messages.push({ role: 'tool', content: content.slice(0, MOST_CHARACTERS) });
    }
    return 'I could not find out.';
  }

  /** @returns the text for the model, also if the call failed */
  async #call(
    name: string,
    args: Record<string, unknown>,
    caller: object,
  ): Promise<string> {
    try {
      const { content } = await this.tools.callTool(name, args, caller);
      return JSON.stringify(content);
    } catch (error) {
      return `The call failed: ${(error as Error).message}`;
    }
  }
}

@Controller('assistant')
@UseGuards(LoginGuard)
export class AssistantController {
  constructor(@Inject(Assistant) private readonly assistant: Assistant) {}

  @Post()
  async ask(
    @Req() { user }: LoggedIn,
    @Body('question') question: unknown,
  ): Promise<{ answer: string }> {
    return { answer: await this.assistant.ask(String(question).slice(0, 2_000), user) };
  }
}
// #endregion
