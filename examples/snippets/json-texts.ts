// #region list
import { Injectable } from '@nestjs/common';
import { McpArgs, Tool } from 'nestjs-mcp-streamable';
import { z } from 'zod';

/** Takes a list, an object or a number that a client has sent as JSON text. What is no JSON is left to the schema. */
export function orJsonText<Schema extends z.ZodType>(schema: Schema) {
  return z.preprocess((value) => {
    if (typeof value !== 'string') return value;
    try {
      return JSON.parse(value) as unknown;
    } catch {
      return value;
    }
  }, schema);
}

const Labels = z.object({ labels: orJsonText(z.array(z.string()).max(20)) });

@Injectable()
export class LabelTools {
  @Tool({ name: 'add_labels', description: 'Adds labels', inputSchema: Labels })
  add(@McpArgs('labels') labels: string[]): string {
    return `Added ${labels.length} labels.`;
  }
}
// #endregion
