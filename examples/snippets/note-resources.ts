// #region list
import { Inject, Injectable } from '@nestjs/common';
import {
  type McpListedResource,
  ListResources,
  McpArgs,
  type McpContext,
  McpCtx,
  ResourceTemplate,
} from 'nestjs-mcp-streamable';
import { Notes } from './notes.js';

@Injectable()
export class NoteResources {
  constructor(@Inject(Notes) private readonly notes: Notes) {}

  @ResourceTemplate({
    uriTemplate: 'notes://{id}',
    name: 'note',
    mimeType: 'text/markdown',
  })
  async read(
    @McpArgs('id') id: string,
    @McpCtx() { principal }: McpContext,
  ): Promise<string | undefined> {
    return (await this.notes.of(principal)).find((note) => note.id === id)?.text;
  }

  @ListResources('notes://{id}')
  async list(@McpCtx() { principal }: McpContext): Promise<McpListedResource[]> {
    const notes = await this.notes.of(principal);
    return notes.map(({ id, title }) => ({ uri: `notes://${id}`, name: title }));
  }
}
// #endregion
