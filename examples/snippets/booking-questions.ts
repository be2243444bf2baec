// #region once
import { ConflictException, Inject, Injectable } from '@nestjs/common';
import { McpArgs, type McpContext, McpCtx, Tool } from 'nestjs-mcp-streamable';
import { z } from 'zod';
import { Rooms } from './rooms.service.js';

const City = z.object({ city: z.string() });
const Guest = z.object({ name: z.string().min(1) });

@Injectable()
export class BookingTools {
  constructor(@Inject(Rooms) private readonly rooms: Rooms) {}

  @Tool({
    name: 'book_room',
    description: 'Books a room, if the user agrees',
    inputSchema: City,
  })
  async book(@McpArgs('city') city: string, @McpCtx() ctx: McpContext): Promise<string> {
    const offer = await ctx.once('offer', () => this.rooms.reserve(city));
    const message = `${offer.hotel} for ${offer.price} €? Then say for whom.`;
    const { action, content } = await ctx.elicit('guest', {
      message,
      requestedSchema: Guest,
    });
    if (action !== 'accept')
      throw new ConflictException('The user does not want the room.');
    return this.rooms.book(offer.id, content.name);
  }
  // #endregion

  // #region ask
  @Tool({ name: 'plan_trip', description: 'Plans a trip' })
  async plan(@McpCtx() ctx: McpContext): Promise<string> {
    const { where, ideas } = await ctx.ask({
      where: {
        method: 'elicitation/create',
        params: { message: 'Where to?', requestedSchema: City },
      },
      ideas: {
        method: 'sampling/createMessage',
        params: {
          messages: [
            {
              role: 'user',
              content: { type: 'text', text: 'Name a sight that every city has.' },
            },
          ],
          maxTokens: 50,
        },
      },
    });
    // A model may answer with a list of blocks.
    const [idea] = [ideas.content].flat();
    const sight = idea?.type === 'text' ? idea.text : 'nothing';
    return `Go to ${String(where.content?.['city'])} and see ${sight}.`;
  }
  // #endregion

  // #region again
  @Tool({ name: 'guess_city', description: 'Lets the user guess a city' })
  async guess(@McpCtx() ctx: McpContext): Promise<string> {
    for (let attempt = 1; attempt <= 3; attempt++) {
      const message = `Which city is it? (${attempt} of 3)`;
      const { content } = await ctx.elicit(`guess-${attempt}`, {
        message,
        requestedSchema: City,
      });
      if (content?.city === 'Rome') return 'Right.';
    }
    return 'It was Rome.';
  }
  // #endregion

  // #region capabilities
  @Tool({ name: 'describe_room', description: 'Describes a room' })
  async describe(@McpCtx() ctx: McpContext): Promise<string> {
    if (!('sampling' in ctx.clientCapabilities)) return 'A room with a view.';
    const messages = [
      {
        role: 'user' as const,
        content: { type: 'text' as const, text: 'Describe a hotel room.' },
      },
    ];
    const { content } = await ctx.sample('text', { messages, maxTokens: 100 });
    const block = [content].flat().find(({ type }) => type === 'text');
    return block?.type === 'text' ? block.text : 'A room.';
  }
  // #endregion
}
