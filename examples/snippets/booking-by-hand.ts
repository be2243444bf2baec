// #region by-hand
import { Injectable } from '@nestjs/common';
import { acceptedContent, inputRequired } from '@modelcontextprotocol/server';
import { type McpContext, McpCtx, Tool } from 'nestjs-mcp-streamable';
import { z } from 'zod';

const Choice = z.object({ floor: z.number() });

@Injectable()
export class HandMadeTools {
  @Tool({ name: 'choose_floor', description: 'Lets the user choose a floor' })
  choose(@McpCtx() ctx: McpContext) {
    const choice = acceptedContent(ctx.inputResponses, 'floor', Choice);
    if (choice) return `Floor ${choice.floor}, asked at ${ctx.requestState}.`;
    return inputRequired({
      inputRequests: {
        floor: inputRequired.elicit({ message: 'Which floor?', requestedSchema: Choice }),
      },
      requestState: new Date().toISOString(),
    });
  }
}
// #endregion
