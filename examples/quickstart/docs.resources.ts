import { Inject, Injectable } from '@nestjs/common';
import { Complete, McpArgs, ResourceTemplate } from 'nestjs-mcp-streamable';
import { DocsService } from './docs.service.js';
import { DOCS_TEMPLATE, nameOf } from './docs.uri.js';

/** Documents by their URI. Those that a list shows are registered by `DocsCatalog`. */
@Injectable()
export class DocsResources {
  constructor(@Inject(DocsService) private readonly docs: DocsService) {}

  @ResourceTemplate({
    uriTemplate: DOCS_TEMPLATE,
    name: 'document',
    title: 'A document',
    mimeType: 'text/markdown',
  })
  read(@McpArgs('uri') uri: string): Promise<string> {
    return this.docs.read(nameOf(uri));
  }

  @Complete({ template: DOCS_TEMPLATE, argument: 'name' })
  async names(value: string): Promise<string[]> {
    const docs = await this.docs.list();
    return docs.map(({ name }) => name).filter((name) => name.includes(value));
  }
}
