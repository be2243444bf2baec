// #region lookalike
import { Injectable } from '@nestjs/common';
import { type McpStructured, structured, Tool } from 'nestjs-mcp-streamable';

interface Note {
  readonly title: string;
  readonly content: readonly { readonly type: 'text'; readonly text: string }[];
}

@Injectable()
export class NoteTools {
  @Tool({ name: 'latest_note', description: 'The latest note' })
  latest(): McpStructured<Note> {
    return structured({
      title: 'Monday',
      content: [{ type: 'text', text: 'Call Ann.' }],
    });
  }
}
// #endregion
